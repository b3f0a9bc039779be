// SPDX-License-Identifier: BSD-3-Clause
// What receive and transmit do alike with the lanes of a vector register. Pure values, any thread.
// For processors with SSE4.1.
#pragma once

#if defined(__SSE4_1__)

#include <cstdint>

#include <smmintrin.h>

namespace kilim::inline v1::burst::detail {

// A loop's sum, which compilers would copy for each of the loop's ends (GCC 12).
template <typename Vector>
[[gnu::always_inline]] inline Vector in_one_register(Vector v) noexcept {
  asm("" : "+x"(v));
  return v;
}
// An address that they would compute anew in each round.
template <typename T>
[[gnu::always_inline]] inline const T* in_one_register(const T* p) noexcept {
  asm("" : "+r"(p));
  return p;
}

inline uint32_t sum_of_words(__m128i words) noexcept {
  const __m128i two = _mm_add_epi32(words, _mm_srli_si128(words, 8));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(two)) +
         static_cast<uint32_t>(_mm_extract_epi32(two, 1));
}

}  // namespace kilim::inline v1::burst::detail

#endif
