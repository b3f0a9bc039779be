// SPDX-License-Identifier: BSD-3-Clause
// The cache line: data that different threads write lies in different lines.
#pragma once

#include <cstddef>

namespace kilim {
inline constexpr std::size_t cacheline_bytes = 64;
}  // namespace kilim

#define KILIM_CACHELINE_ALIGNED alignas(::kilim::cacheline_bytes)
