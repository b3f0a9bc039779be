// SPDX-License-Identifier: BSD-3-Clause
// Which vector instructions a function that is chosen at set-up uses. Pure values, any thread; what
// the processor has is asked by burst::widest_simd().
#pragma once

#include <cstdint>

// A function that is compiled for processors with AVX2, whatever the rest is compiled for. It is
// called through a table whose row was chosen for such a processor, and by nothing else.
#define KILIM_AVX2 [[gnu::target("avx2")]]

namespace kilim::inline v1 {

enum class Simd : uint8_t {
  base,  // what the library is compiled for: SSE4.2 as DPDK, else none
  avx2,
};

}  // namespace kilim::inline v1
