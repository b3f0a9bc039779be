// SPDX-License-Identifier: BSD-3-Clause
// The cache line. Data that different threads write is aligned to lines of its own, as a line moves
// between cores whole.
#pragma once

#include <cstddef>

namespace kilim::inline v1 {
inline constexpr std::size_t cacheline_bytes = 64;  // of x86-64 and of most arm64 processors
}  // namespace kilim::inline v1

#define KILIM_CACHELINE_ALIGNED alignas(::kilim::cacheline_bytes)
