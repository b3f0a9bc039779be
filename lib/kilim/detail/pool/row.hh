// SPDX-License-Identifier: BSD-3-Clause
// Rows of buffer indices and of handles, moved 16 at a time: a whole cache line of indices. Owner:
// the caller, who owns both rows; they do not overlap. Any thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "kilim/detail/pool/handle.hh"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kilim::inline v1::pool::detail {

inline constexpr uint32_t line_indices = cacheline_bytes / sizeof(uint32_t);

// The handles of a row differ in their index only: `like` has the rest.
#if defined(__SSE2__)

inline __m128i load_row(const void* from) noexcept {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
inline void store_row(void* to, __m128i row) noexcept {
  _mm_storeu_si128(static_cast<__m128i*>(to), row);
}

// Four of each, in two or four moves.
inline void four_indices(uint32_t* to, const uint32_t* from) noexcept {
  store_row(to, load_row(from));
}
inline void four_handles(Handle* to, const uint32_t* from, __m128i upper) noexcept {
  const __m128i four = load_row(from);
  store_row(to, _mm_unpacklo_epi32(four, upper));
  store_row(to + 2, _mm_unpackhi_epi32(four, upper));
}
inline void four_indices(uint32_t* to, const Handle* from) noexcept {
  const __m128 first = _mm_castsi128_ps(load_row(from));
  const __m128 second = _mm_castsi128_ps(load_row(from + 2));
  store_row(to, _mm_castps_si128(_mm_shuffle_ps(first, second, _MM_SHUFFLE(2, 0, 2, 0))));
}

inline __m128i upper_half(Handle like) noexcept {
  return _mm_set1_epi32(static_cast<int>(like.length | uint32_t{like.meta} << 16));
}

#else

inline void four_indices(uint32_t* to, const uint32_t* from) noexcept {
  std::memcpy(to, from, 4 * sizeof(uint32_t));
}
inline void four_handles(Handle* to, const uint32_t* from, Handle like) noexcept {
  for (uint32_t i = 0; i < 4; i++) to[i] = {from[i], like.length, like.meta};
}
inline void four_indices(uint32_t* to, const Handle* from) noexcept {
  for (uint32_t i = 0; i < 4; i++) to[i] = from[i].index;
}
inline Handle upper_half(Handle like) noexcept {
  return like;
}

#endif

inline uint32_t index_of(uint32_t index) noexcept {
  return index;
}
inline uint32_t index_of(Handle h) noexcept {
  return h.index;
}

// Writes the indices of `n` handles, or `n` indices, to `to`.
template <typename From>
[[gnu::always_inline]] inline void row_of_indices(uint32_t* to, const From* from,
                                                  uint32_t n) noexcept {
  for (; n >= line_indices; n -= line_indices, to += line_indices, from += line_indices) {
    four_indices(to, from);
    four_indices(to + 4, from + 4);
    four_indices(to + 8, from + 8);
    four_indices(to + 12, from + 12);
  }
  for (; n >= 4; n -= 4, to += 4, from += 4) four_indices(to, from);
  for (; n != 0; n--) *to++ = index_of(*from++);
}

// Writes `n` handles with these indices to `to`.
inline void row_of_handles(Handle* to, const uint32_t* from, uint32_t n, Handle like) noexcept {
  const auto upper = upper_half(like);
  for (; n >= line_indices; n -= line_indices, to += line_indices, from += line_indices) {
    four_handles(to, from, upper);
    four_handles(to + 4, from + 4, upper);
    four_handles(to + 8, from + 8, upper);
    four_handles(to + 12, from + 12, upper);
  }
  for (; n >= 4; n -= 4, to += 4, from += 4) four_handles(to, from, upper);
  for (; n != 0; n--) *to++ = {*from++, like.length, like.meta};
}

}  // namespace kilim::inline v1::pool::detail
