// SPDX-License-Identifier: BSD-3-Clause
// The verbs behind commands and methods, by which a refusal is told. Any thread.
#pragma once

#include <cstdint>

namespace kilim::vhca::uverbs {

// Live for ever. Of what is in no table: words that say so.
const char* verb_name(uint32_t command) noexcept;
const char* verb_name(uint16_t object, uint16_t method) noexcept;

}  // namespace kilim::vhca::uverbs
