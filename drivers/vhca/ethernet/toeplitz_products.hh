// SPDX-License-Identifier: BSD-3-Clause
// The Toeplitz hashes of four inputs by products without carry: bit j of a hash is the sum of the
// input's bits i where bit i + j of the key is set, so it is a bit of the product of the input with
// the reversed key (the same in Galois fields: DPDK lib/hash/rte_thash.c,
// rte_thash_complete_matrix()). In line, for functions of the same target. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

namespace kilim::vhca::ethernet {

// Of a key: what two addresses are multiplied with, and what the ports are, 0 where those do not
// count.
struct ToeplitzWindows {
  __m128i first_two, third;
};
// `products`: Toeplitz::products().
[[gnu::always_inline]] inline ToeplitzWindows windows_of(const uint64_t* products,
                                                         bool ports) noexcept {
  const auto* windows = reinterpret_cast<const __m128i*>(products);
  return {_mm_load_si128(windows), ports ? _mm_load_si128(windows + 1) : _mm_setzero_si128()};
}

// The sum of the products of one input, whose bits 32 to 63 are the hash, the first one lowest.
[[gnu::target("pclmul,ssse3"), gnu::always_inline]] inline __m128i product_of(
    const std::byte* input, const ToeplitzWindows& w) noexcept {
  const __m128i two_words = _mm_setr_epi8(3, 2, 1, 0, -1, -1, -1, -1, 7, 6, 5, 4, -1, -1, -1, -1);
  const __m128i last_word =
      _mm_setr_epi8(11, 10, 9, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(input));
  const __m128i addresses = _mm_shuffle_epi8(x, two_words);
  const __m128i sum = _mm_xor_si128(_mm_clmulepi64_si128(addresses, w.first_two, 0x00),
                                    _mm_clmulepi64_si128(addresses, w.first_two, 0x11));
  return _mm_xor_si128(sum, _mm_clmulepi64_si128(_mm_shuffle_epi8(x, last_word), w.third, 0x00));
}

// Bits of each byte in the other order.
[[gnu::target("ssse3"), gnu::always_inline]] inline __m128i turn_bytes(__m128i v) noexcept {
  const __m128i nibble = _mm_set1_epi8(0x0f);
  const __m128i turned =
      _mm_setr_epi8(0x0, 0x8, 0x4, 0xc, 0x2, 0xa, 0x6, 0xe, 0x1, 0x9, 0x5, 0xd, 0x3, 0xb, 0x7, 0xf);
  const __m128i low = _mm_shuffle_epi8(turned, _mm_and_si128(v, nibble));
  const __m128i high = _mm_shuffle_epi8(turned, _mm_and_si128(_mm_srli_epi16(v, 4), nibble));
  return _mm_or_si128(_mm_slli_epi16(low, 4), high);
}

// Of four inputs, each `step` bytes behind the other; 16 bytes of each can be read. `value`:
// numbers; `raw`: the same, big-endian; both four.
[[gnu::target("pclmul,ssse3"), gnu::always_inline]] inline void multiply_four(
    const ToeplitzWindows& w, const std::byte* first, std::size_t step, uint32_t* value,
    uint32_t* raw) noexcept {
  __m128i sums[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; i++) sums[i] = product_of(first + i * step, w);
  const __m128i all = _mm_unpackhi_epi64(_mm_unpacklo_epi32(sums[0], sums[1]),
                                         _mm_unpacklo_epi32(sums[2], sums[3]));
  const __m128i turned = turn_bytes(all);
  const __m128i to_host = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(raw), turned);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(value), _mm_shuffle_epi8(turned, to_host));
}

}  // namespace kilim::vhca::ethernet
