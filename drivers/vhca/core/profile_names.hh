// SPDX-License-Identifier: BSD-3-Clause
// Which profiles there are (core/profile.hh), for lists and help texts. Any thread.
#pragma once

#include <cstddef>

namespace kilim::vhca {

// The name of each, by place; null: there are no more.
const char* profile_name(std::size_t place) noexcept;

}  // namespace kilim::vhca
