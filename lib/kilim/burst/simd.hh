// SPDX-License-Identifier: BSD-3-Clause
// Which vector instructions the bursts of a queue use. Pure values, any thread; widest_simd() is
// for set-up.
#pragma once

#include <cstdint>

// A function that is compiled for processors with AVX2, whatever the rest is compiled for. It is
// called by burst functions that select.hh chose for such a processor, and by nothing else.
#define KILIM_AVX2 [[gnu::target("avx2")]]

namespace kilim::burst {

enum class Simd : uint8_t {
  base,  // what the library is compiled for: SSE4.2 as DPDK, else none
  avx2,
};

// The widest that this processor has and EAL allows (--force-max-simd-bitwidth).
Simd widest_simd() noexcept;

}  // namespace kilim::burst
