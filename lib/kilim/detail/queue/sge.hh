// SPDX-License-Identifier: BSD-3-Clause
// A piece of memory under a key, and how it is written as a pointer segment. Data segments and KLMs
// have one layout: length, key, address, all big endian. Pure values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/prm/data_seg.hh"

#if defined(__SSSE3__)
#include <tmmintrin.h>
#endif

namespace kilim::inline v1::queue {

// Laid out as ibv_sge, so that one 16-byte shuffle makes a segment of it.
struct alignas(16) Sge {
  uint64_t address = 0;
  uint32_t length = 0;
  Lkey key;
};
static_assert(sizeof(Sge) == 16 && offsetof(Sge, length) == 8 && offsetof(Sge, key) == 12);

// One store of its own. Without saying so the compiler gathers neighbours in a vector register
// first, which takes more instructions than it saves.
template <typename T>
inline void store_word(std::byte* dst, Be<T> word) noexcept {
  using Raw [[gnu::may_alias]] = T;
  __atomic_store_n(reinterpret_cast<Raw*>(dst), word.raw(), __ATOMIC_RELAXED);
}

// Writes the segment of a piece whose parts are at hand (in registers).
inline void store_pointer(std::byte* dst, uint64_t address, uint32_t length, Lkey key) noexcept {
  store_word(dst, be64{uint64_t{length} << 32 | key.value()});
  store_word(dst + 8, be64{address});
}
// Writes the segment of a piece that was made on the spot.
inline void store_pointer(std::byte* dst, Sge&& piece) noexcept {
  store_pointer(dst, piece.address, piece.length, piece.key);
}

// Writes the segment of a piece that lies in memory.
inline void store_pointer(std::byte* dst, const Sge& piece) noexcept {
#if defined(__SSSE3__)
  const __m128i order = _mm_setr_epi8(11, 10, 9, 8, 15, 14, 13, 12, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m128i host = _mm_load_si128(reinterpret_cast<const __m128i*>(&piece));
  _mm_store_si128(reinterpret_cast<__m128i*>(dst), _mm_shuffle_epi8(host, order));
#else
  store_pointer(dst, piece.address, piece.length, piece.key);
#endif
}

// Writes the data segment of a piece that is not empty and at most 2 GiB long; above, a KLM's and a
// data segment's lengths differ.
inline void store_data(std::byte* dst, const Sge& piece) noexcept {
  store_pointer(dst, piece.address, prm::segment_count(piece.length), piece.key);
}

// Zeroes one 16-byte segment.
inline void store_zero(std::byte* dst) noexcept {
  std::memset(dst, 0, 16);
}

}  // namespace kilim::inline v1::queue
