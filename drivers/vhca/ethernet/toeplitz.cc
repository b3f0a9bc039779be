// SPDX-License-Identifier: BSD-3-Clause
// The tables of a Toeplitz key, and the hash of four inputs by products without carry: bit j of the
// hash is the sum of the input's bits i where bit i + j of the key is set, so it is a bit of the
// product of the input with the reversed key (the same in Galois fields: DPDK lib/hash/rte_thash.c,
// rte_thash_complete_matrix()). Pure.
#include "vhca/ethernet/toeplitz.hh"

#include <immintrin.h>

#include "kilim/base/be.hh"

namespace kilim::vhca {

namespace {

// The 32 bits of the key from bit `at` on, counted from the highest bit of the first byte.
uint32_t window(const std::array<uint8_t, toeplitz_key_bytes>& key, std::size_t at) noexcept {
  uint64_t five = 0;
  for (std::size_t i = 0; i < 5; i++)
    five = five << 8 | (at / 8 + i < key.size() ? key[at / 8 + i] : 0u);
  return static_cast<uint32_t>(five >> (8 - at % 8));
}

// The key's bits from bit `at` on, the first one lowest.
uint64_t reversed_window(const std::array<uint8_t, toeplitz_key_bytes>& key, std::size_t at,
                         std::size_t bits) noexcept {
  uint64_t w = 0;
  for (std::size_t i = 0; i < bits; i++) w |= uint64_t{window(key, at + i) >> 31} << i;
  return w;
}

bool has_products() noexcept {
  return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("ssse3") != 0;
}

// The sum of the products of one input, whose bits 32 to 63 are the hash, the first one lowest.
// `third`: of the ports; 0 where they do not count.
[[gnu::target("pclmul,ssse3"), gnu::always_inline]] inline __m128i product_of(
    const std::byte* input, __m128i first_two, __m128i third) noexcept {
  const __m128i two_words = _mm_setr_epi8(3, 2, 1, 0, -1, -1, -1, -1, 7, 6, 5, 4, -1, -1, -1, -1);
  const __m128i last_word =
      _mm_setr_epi8(11, 10, 9, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(input));
  const __m128i addresses = _mm_shuffle_epi8(x, two_words);
  const __m128i sum = _mm_xor_si128(_mm_clmulepi64_si128(addresses, first_two, 0x00),
                                    _mm_clmulepi64_si128(addresses, first_two, 0x11));
  return _mm_xor_si128(sum, _mm_clmulepi64_si128(_mm_shuffle_epi8(x, last_word), third, 0x00));
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

// `products`: as Toeplitz has them.
[[gnu::target("pclmul,ssse3")]] void multiply_four(const uint64_t* products,
                                                   const Toeplitz::Inputs& in, uint32_t* value,
                                                   uint32_t* raw) noexcept {
  const auto* windows = reinterpret_cast<const __m128i*>(products);
  const __m128i first_two = _mm_load_si128(windows);
  const __m128i third = in.ports ? _mm_load_si128(windows + 1) : _mm_setzero_si128();
  __m128i sums[4];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; i++)
    sums[i] = product_of(in.first + i * in.step, first_two, third);
  const __m128i all = _mm_unpackhi_epi64(_mm_unpacklo_epi32(sums[0], sums[1]),
                                         _mm_unpacklo_epi32(sums[2], sums[3]));
  const __m128i turned = turn_bytes(all);
  const __m128i to_host = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(raw), turned);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(value), _mm_shuffle_epi8(turned, to_host));
}

}  // namespace

Toeplitz::Toeplitz(const std::array<uint8_t, toeplitz_key_bytes>& key, bool with_products) noexcept
    : multiplies_(with_products && has_products()) {
  for (std::size_t i = 0; i < short_input / 4; i++)
    products_[i] = reversed_window(key, i * word_bits, 2 * word_bits - 1) << 1;
  for (std::size_t part = 0; part < parts_.size(); part++) {
    for (std::size_t bit = 0; bit < 4; bit++) {
      const uint32_t w = window(key, part * 4 + bit);
      for (std::size_t value = 0; value < 16; value++) {
        if ((value >> (3 - bit) & 1) != 0) parts_[part][value] ^= w;
      }
    }
  }
  for (std::size_t i = 0; i < bytes_.size(); i++)
    for (std::size_t value = 0; value < 256; value++)
      bytes_[i][value] = parts_[2 * i][value >> 4] ^ parts_[2 * i + 1][value & 15];
}

void Toeplitz::hash_four(const Inputs& in, std::array<uint32_t, 4>& value,
                         std::array<uint32_t, 4>& raw) const noexcept {
  if (multiplies_) [[likely]]
    return multiply_four(products_.data(), in, value.data(), raw.data());
  const std::byte* input = in.first;
  for (std::size_t i = 0; i < 4; i++, input += in.step) {
    value[i] = in.ports ? hash_short<short_input>(input) : hash_short<address_input>(input);
    raw[i] = be32{value[i]}.raw();
  }
}

}  // namespace kilim::vhca
