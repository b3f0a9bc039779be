// SPDX-License-Identifier: BSD-3-Clause
// AES by the processor's instructions, four blocks of a data unit at once: an instruction's result
// is there after some cycles, but one begins in each. Pure values. Never allocates.
#include "vhca/tpt/aes_vector.hh"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kilim::vhca::tpt::aes {

#if defined(__x86_64__)

namespace {

constexpr std::size_t lanes = 4;

[[gnu::target("sse2"), gnu::always_inline]] inline __m128i at(const void* p) noexcept {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}

// Times alpha: the bits that leave each half go to the other one, or come back as 0x87.
[[gnu::target("sse2"), gnu::always_inline]] inline __m128i times_alpha_vector(__m128i t) noexcept {
  const __m128i sign = _mm_shuffle_epi32(_mm_srai_epi32(t, 31), 0x13);
  return _mm_xor_si128(_mm_slli_epi64(t, 1), _mm_and_si128(sign, _mm_set_epi32(0, 1, 0, 0x87)));
}

template <bool forward, std::size_t n>
[[gnu::target("aes,sse2"), gnu::always_inline]] inline void rounds(const AesKey& k,
                                                                   __m128i* s) noexcept {
  const AesBlock* const keys = forward ? k.encrypt : k.decrypt;
  for (std::size_t i = 0; i < n; i++) s[i] = _mm_xor_si128(s[i], at(&keys[0]));
  for (uint32_t r = 1; r < k.rounds; r++) {
    for (std::size_t i = 0; i < n; i++)
      s[i] = forward ? _mm_aesenc_si128(s[i], at(&keys[r])) : _mm_aesdec_si128(s[i], at(&keys[r]));
  }
  const __m128i last = at(&keys[k.rounds]);
  for (std::size_t i = 0; i < n; i++)
    s[i] = forward ? _mm_aesenclast_si128(s[i], last) : _mm_aesdeclast_si128(s[i], last);
}

template <bool forward, std::size_t n>
[[gnu::target("aes,sse2"), gnu::always_inline]] inline __m128i some(const AesKey& k, __m128i tweak,
                                                                    std::byte* data) noexcept {
  __m128i s[n], t[n];
  for (std::size_t i = 0; i < n; i++) {
    t[i] = tweak;
    s[i] = _mm_xor_si128(at(data + aes_block * i), tweak);
    tweak = times_alpha_vector(tweak);
  }
  rounds<forward, n>(k, s);
  for (std::size_t i = 0; i < n; i++)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(data + aes_block * i), _mm_xor_si128(s[i], t[i]));
  return tweak;
}

template <bool forward>
[[gnu::target("aes,sse2")]] void all(const AesKey& k, AesBlock& tweak, std::byte* data,
                                     std::size_t blocks) noexcept {
  __m128i t = at(&tweak);
  for (; blocks >= lanes; blocks -= lanes, data += lanes * aes_block)
    t = some<forward, lanes>(k, t, data);
  for (; blocks > 0; blocks--, data += aes_block) t = some<forward, 1>(k, t, data);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&tweak), t);
}

}  // namespace

bool have_instructions() noexcept {
  static const bool have = __builtin_cpu_supports("aes") != 0;
  return have;
}

void run(const XtsKey& key, AesBlock& tweak, std::byte* data, std::size_t blocks,
         bool encrypt) noexcept {
  if (encrypt)
    all<true>(key.data, tweak, data, blocks);
  else
    all<false>(key.data, tweak, data, blocks);
}

#else

bool have_instructions() noexcept {
  return false;
}

void run(const XtsKey&, AesBlock&, std::byte*, std::size_t, bool) noexcept {}

#endif

}  // namespace kilim::vhca::tpt::aes
