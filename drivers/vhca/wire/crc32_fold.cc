// SPDX-License-Identifier: BSD-3-Clause
// Folding as in Gopal, Ozturk, Guilford and others, "Fast CRC Computation for Generic Polynomials
// Using PCLMULQDQ Instruction" (Intel, 2009), "bit reflected"; its last steps are left to the
// tables, so all constants are powers, and computed here. Two lanes at once where VPCLMULQDQ is.
#include "vhca/wire/crc32_fold.hh"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kilim::vhca::wire::crc32_fold {

#if defined(__x86_64__)

namespace {

// What x^n is worth modulo the polynomial, its bits from high to low as a reflected sum has them,
// and one to the left: the product of two reflected numbers lies one bit too low.
constexpr uint64_t power(unsigned n) noexcept {
  uint32_t r = 0x80000000;  // x^0
  for (; n > 0; n--) r = (r & 1) != 0 ? r >> 1 ^ 0xedb88320 : r >> 1;
  return uint64_t{r} << 1;
}
static_assert(power(4 * 128 + 32) == 0x154442bd4 && power(4 * 128 - 32) == 0x1c6e41596);
static_assert(power(128 + 32) == 0x1751997d0 && power(128 - 32) == 0x0ccaa009e);

// Both halves of sixteen bytes, carried over `bits` bits.
[[gnu::target("pclmul"), gnu::always_inline]] inline __m128i carry(__m128i x, __m128i by) noexcept {
  return _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11));
}
template <unsigned bits>
[[gnu::always_inline]] inline __m128i over() noexcept {
  return _mm_set_epi64x(static_cast<int64_t>(power(bits - 32)),
                        static_cast<int64_t>(power(bits + 32)));
}
[[gnu::always_inline]] inline __m128i at(const std::byte* p) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

}  // namespace

namespace {

// Four blocks at a time: one multiplication need not wait for the one before it.
[[gnu::target("pclmul")]] const std::byte* fold_some(__m128i& a, const std::byte* p,
                                                     std::size_t blocks) noexcept {
  const __m128i by_four = over<4 * 128>(), by_one = over<128>();
  if (blocks >= 4) {
    __m128i b = at(p), c = at(p + 16), d = at(p + 32);
    for (blocks -= 3, p += 48; blocks >= 4; blocks -= 4, p += 64) {
      a = _mm_xor_si128(carry(a, by_four), at(p));
      b = _mm_xor_si128(carry(b, by_four), at(p + 16));
      c = _mm_xor_si128(carry(c, by_four), at(p + 32));
      d = _mm_xor_si128(carry(d, by_four), at(p + 48));
    }
    for (__m128i next : {b, c, d}) a = _mm_xor_si128(carry(a, by_one), next);
  }
  for (; blocks > 0; blocks--, p += 16) a = _mm_xor_si128(carry(a, by_one), at(p));
  return p;
}

[[gnu::target("pclmul,avx2,vpclmulqdq"), gnu::always_inline]] inline __m256i carry(
    __m256i x, __m256i by) noexcept {
  return _mm256_xor_si256(_mm256_clmulepi64_epi128(x, by, 0x00),
                          _mm256_clmulepi64_epi128(x, by, 0x11));
}
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i wide_at(const std::byte* p) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// Eight blocks at a time; `a` is the first of them, `p` lies behind it, and there are seven more at
// least.
[[gnu::target("pclmul,avx2,vpclmulqdq")]] const std::byte* fold_wide(__m128i& a, const std::byte* p,
                                                                     std::size_t blocks) noexcept {
  const __m256i by_eight = _mm256_broadcastsi128_si256(over<8 * 128>());
  const __m256i by_two = _mm256_broadcastsi128_si256(over<2 * 128>());
  __m256i w = _mm256_inserti128_si256(_mm256_castsi128_si256(a), at(p), 1);
  __m256i x = wide_at(p + 16), y = wide_at(p + 48), z = wide_at(p + 80);
  for (blocks -= 7, p += 112; blocks >= 8; blocks -= 8, p += 128) {
    w = _mm256_xor_si256(carry(w, by_eight), wide_at(p));
    x = _mm256_xor_si256(carry(x, by_eight), wide_at(p + 32));
    y = _mm256_xor_si256(carry(y, by_eight), wide_at(p + 64));
    z = _mm256_xor_si256(carry(z, by_eight), wide_at(p + 96));
  }
  for (__m256i next : {x, y, z}) w = _mm256_xor_si256(carry(w, by_two), next);
  a = _mm_xor_si128(carry(_mm256_castsi256_si128(w), over<128>()), _mm256_extracti128_si256(w, 1));
  return p;
}

[[gnu::target("pclmul")]] std::size_t fold_from(__m128i a, std::span<const std::byte> bytes,
                                                bool wide, std::span<std::byte, 16> out) noexcept {
  const std::byte* const end = bytes.data() + bytes.size();
  const std::byte* p = bytes.data() + 16;
  if (wide && bytes.size() >= 2 * least)
    p = fold_wide(a, p, static_cast<std::size_t>(end - p) / 16);
  p = fold_some(a, p, static_cast<std::size_t>(end - p) / 16);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out.data()), a);
  return static_cast<std::size_t>(p - bytes.data());
}

}  // namespace

Way best() noexcept {
  if (__builtin_cpu_supports("pclmul") == 0) return Way::none;
  const bool wide =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
  return wide ? Way::wide : Way::narrow;
}

std::size_t fold(Way way, uint32_t state, std::span<const std::byte> bytes,
                 std::span<std::byte, 16> out) noexcept {
  const __m128i first = _mm_xor_si128(at(bytes.data()), _mm_cvtsi32_si128(static_cast<int>(state)));
  return fold_from(first, bytes, way == Way::wide, out);
}

#else

Way best() noexcept {
  return Way::none;
}

std::size_t fold(Way, uint32_t, std::span<const std::byte>, std::span<std::byte, 16>) noexcept {
  return 0;
}

#endif

}  // namespace kilim::vhca::wire::crc32_fold
