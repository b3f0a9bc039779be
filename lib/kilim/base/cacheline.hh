// SPDX-License-Identifier: BSD-3-Clause
// The unit in which cores fight over memory.
#pragma once

#include <cstddef>

namespace kilim {
inline constexpr std::size_t cacheline_bytes = 64;
}  // namespace kilim

#define KILIM_CACHELINE_ALIGNED alignas(::kilim::cacheline_bytes)
