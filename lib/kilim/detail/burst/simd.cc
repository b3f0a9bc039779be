// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/burst/simd.hh"

#include <rte_cpuflags.h>
#if defined(__SSE4_1__)
#include <immintrin.h>
#endif
extern "C" {  // which the header of DPDK 22.11 does not say
#include <rte_vect.h>
}

namespace kilim::inline v1::burst {

Simd widest_simd() noexcept {
#if defined(__SSE4_1__)
  if (rte_cpu_get_flag_enabled(RTE_CPUFLAG_AVX2) > 0 &&
      rte_vect_get_max_simd_bitwidth() >= RTE_VECT_SIMD_256)
    return Simd::avx2;
#endif
  return Simd::base;
}

}  // namespace kilim::inline v1::burst
