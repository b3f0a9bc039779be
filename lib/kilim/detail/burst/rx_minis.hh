// SPDX-License-Identifier: BSD-3-Clause
// Packets of a compressed block, four or eight at once: hash and length from their minis, all else
// from what the block's title says of each. The same handles and side records as one by one
// (burst/rx_compressed.hh). Owner: the queue's worker. For processors with SSE4.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/burst/config.hh"
#include "kilim/detail/burst/packet_words.hh"
#include "kilim/detail/burst/rx_eight.hh"
#include "kilim/detail/burst/rx_four.hh"
#include "kilim/detail/burst/simd.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::inline v1::burst::detail {

// All packets of a block share these values.
struct BlockWords {
  pool::SideRecord side;    // the title's; the hash is its own
  pool::SideRecord* sides;  // by a buffer's index
  uint32_t meta;            // of each handle
  bool mini_hash;           // the minis say the hash; else they say none
};

// Packets of the block at the front of a completion queue: `count` of them from number `first` on.
struct BlockPart {
  const queue::Cq& cq;
  const uint32_t* buffers;  // of the receives, as far as they lie in a row
  uint32_t places;          // of these, for which there is place
  uint32_t first, count;
};

#if defined(__SSE4_1__)

constexpr uint32_t flags_without_hash(const pool::SideRecord& s) noexcept {
  return s.flags & ~hash_flag;
}
constexpr uint32_t last_word(const pool::SideRecord& s) noexcept {
  return uint32_t{s.mark_low} << 16 | s.vlan;
}

// Hashes in the host's order out of words of minis; zeros where these say something else.
inline __m128i mini_hash_order(bool mini_hash) noexcept {
  const __m128i big = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
  return mini_hash ? big : _mm_set1_epi32(-1);
}

// BlockWords in registers, for four packets at once.
struct BlockOfFours {
  explicit BlockOfFours(const BlockWords& w) noexcept
      : sides(w.sides),
        timestamp(w.side.timestamp),
        metas(_mm_set1_epi32(static_cast<int>(w.meta << 16))),
        hash_order(mini_hash_order(w.mini_hash)),
        type(_mm_set1_epi32(static_cast<int>(w.side.packet_type))),
        flags(_mm_set1_epi32(static_cast<int>(flags_without_hash(w.side)))),
        vlan(_mm_set1_epi32(static_cast<int>(last_word(w.side)))) {}

  // Takes the packets of four minis that lie in one entry; returns their lengths.
  template <RxConfig C>
  [[gnu::always_inline]] __m128i take(const prm::MiniCqe* minis, const uint32_t* indices,
                                      pool::Handle* out) const noexcept {
    const auto* from = reinterpret_cast<const __m128i*>(minis);
    const __m128 low = _mm_castsi128_ps(_mm_load_si128(from));
    const __m128 high = _mm_castsi128_ps(_mm_load_si128(from + 1));
    const __m128i counts = _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
    const __m128i lengths = _mm_shuffle_epi8(counts, length_order());
    store_handles(out, indices, lengths, metas);
    if constexpr (C.side) {
      const __m128i results = _mm_castps_si128(_mm_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0)));
      const __m128i hash = _mm_shuffle_epi8(results, hash_order);
      const __m128i none = _mm_cmpeq_epi32(hash, _mm_setzero_si128());
      const __m128i hashed =
          _mm_andnot_si128(none, _mm_set1_epi32(static_cast<int>(uint32_t{hash_flag})));
      store_sides(sides, indices, SideWords{hash, type, _mm_or_si128(flags, hashed), vlan});
      if constexpr (C.timestamp)
        for (std::size_t i = 0; i < 4; i++) sides[indices[i]].timestamp = timestamp;
    }
    return lengths;
  }

  pool::SideRecord* sides;
  uint64_t timestamp;
  __m128i metas, hash_order, type, flags, vlan;
};

// BlockOfFours for eight, which are all minis of an entry.
struct BlockOfEights {
  KILIM_AVX2 explicit BlockOfEights(const BlockWords& w) noexcept
      : sides(w.sides),
        timestamp(w.side.timestamp),
        metas(all_words(w.meta << 16)),
        hash_order(_mm256_broadcastsi128_si256(mini_hash_order(w.mini_hash))),
        type(all_words(w.side.packet_type)),
        flags(all_words(flags_without_hash(w.side))),
        vlan(all_words(last_word(w.side))) {}

  template <RxConfig C>
  KILIM_AVX2 [[gnu::always_inline]] __m256i take(const prm::MiniCqe* minis, const uint32_t* indices,
                                                 pool::Handle* out) const noexcept {
    const auto* from = reinterpret_cast<const __m128i*>(minis);
    // 0 1 4 5, 2 3 6 7: a shuffle within halves leaves them in a row.
    const __m256 low = _mm256_castsi256_ps(joined(_mm_load_si128(from), _mm_load_si128(from + 2)));
    const __m256 high =
        _mm256_castsi256_ps(joined(_mm_load_si128(from + 1), _mm_load_si128(from + 3)));
    const __m256i counts =
        _mm256_castps_si256(_mm256_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
    const __m256i lengths =
        _mm256_shuffle_epi8(counts, _mm256_broadcastsi128_si256(length_order()));
    store_handles(out, indices, lengths, metas);
    if constexpr (C.side) {
      const __m256i results =
          _mm256_castps_si256(_mm256_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0)));
      const __m256i hash = _mm256_shuffle_epi8(results, hash_order);
      const __m256i hashed = _mm256_slli_epi32(_mm256_min_epu32(hash, all_words(1)), 1);
      store_sides(sides, indices, EightSideWords{hash, type, _mm256_or_si256(flags, hashed), vlan});
      if constexpr (C.timestamp)
        for (std::size_t i = 0; i < 8; i++) sides[indices[i]].timestamp = timestamp;
    }
    return lengths;
  }

  pool::SideRecord* sides;
  uint64_t timestamp;
  __m256i metas, hash_order, type, flags, vlan;
};

// Takes packets from number `i` of the part on as fours of minis that share an entry; returns the
// number of the next one, which lies behind the last where that is not the end of its four. Where
// eights are taken too, one four.
template <RxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t take_four_minis(const BlockPart& part,
                                                       const BlockWords& words, uint32_t i,
                                                       std::span<pool::Handle> out,
                                                       uint64_t& bytes) noexcept {
  if ((part.first + i) % 4 != 0) return i;
  const BlockOfFours fours(words);
  __m128i sum = _mm_setzero_si128();
  for (; i < part.count && i + 4 <= part.places; i += 4) {
    const prm::MiniCqe* const minis = &part.cq.mini(part.first + i);
    sum = in_one_register(_mm_add_epi32(sum, fours.take<C>(minis, &part.buffers[i], &out[i])));
    if constexpr (S == Simd::avx2) {
      i += 4;
      break;
    }
  }
  bytes += sum_of_words(in_one_register(sum));
  return i;
}

// Does for eights what take_four_minis() does for fours.
template <RxConfig C>
KILIM_AVX2 inline uint32_t take_eight_minis(const BlockPart& part, const BlockWords& words,
                                            uint32_t i, std::span<pool::Handle> out,
                                            uint64_t& bytes) noexcept {
  if ((part.first + i) % 8 != 0) return i;
  const BlockOfEights eights(words);
  __m256i sum = _mm256_setzero_si256();
  for (; i < part.count && i + 8 <= part.places; i += 8) {
    const prm::MiniCqe* const minis = &part.cq.mini(part.first + i);
    sum = _mm256_add_epi32(sum, eights.take<C>(minis, &part.buffers[i], &out[i]));
    asm("" : "+x"(sum));  // as in_one_register()
  }
  bytes +=
      sum_of_words(_mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)));
  return i;
}

#endif

// Takes the packet of one mini.
template <RxConfig C>
[[gnu::always_inline]] inline uint32_t take_mini(const BlockWords& w, const prm::MiniCqe& mini,
                                                 uint32_t index, pool::Handle& out) noexcept {
  const auto length = static_cast<uint16_t>(mini.byte_cnt.host());
  if constexpr (C.side) {
    constexpr std::size_t written =
        offsetof(pool::SideRecord, timestamp) + (C.timestamp ? sizeof(uint64_t) : 0);
    pool::SideRecord side = w.side;
    side.rx_hash = w.mini_hash ? mini.result.host() : 0;
    side.flags = (side.flags & ~hash_flag) | (side.rx_hash != 0 ? hash_flag : 0u);
    std::memcpy(static_cast<void*>(&w.sides[index]), &side, written);
  }
  out = {index, length, static_cast<uint16_t>(w.meta)};
  return length;
}

}  // namespace kilim::inline v1::burst::detail
