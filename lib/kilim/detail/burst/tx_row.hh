// SPDX-License-Identifier: BSD-3-Clause
// Transmit of packets of one buffer each, two at a time: the same WQEs as one by one (burst/tx.hh),
// in fewer instructions. Owner: the queue's worker. For processors with SSE4.1; others take each
// packet by itself.
#pragma once

#if defined(__SSE4_1__)

#include <cstddef>
#include <cstdint>
#include <span>

#include <smmintrin.h>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/burst/lanes.hh"
#include "kilim/detail/pool/arena.hh"
#include "kilim/detail/pool/each_data.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/queue/eth_row.hh"

namespace kilim::inline v1::burst::detail {

// Shuffles that put the bytes of an address, and of a segment's length, in the device's order.
inline __m128i address_order() noexcept {
  return _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
}
inline __m128i head_order() noexcept {
  return _mm_setr_epi8(-1, -1, 5, 4, -1, -1, -1, -1, -1, -1, 13, 12, -1, -1, -1, -1);
}
// Shuffle for the lengths in the upper words of four handles.
inline __m128i four_lengths_order() noexcept {
  return _mm_setr_epi8(-1, -1, 1, 0, -1, -1, 5, 4, -1, -1, 9, 8, -1, -1, 13, 12);
}

// From handles, two in a register, to their data segments.
class Segments {
 public:
  Segments(const pool::Arena& arena, Lkey key) noexcept
      : key_(_mm_set1_epi32(static_cast<int>(be32{key.value()}.raw()))),
        addresses_(arena.first_address().value(), arena.stride()) {}

  // Addresses of the data, in the order of the device.
  [[nodiscard]] __m128i addresses(__m128i two) const noexcept {
    return _mm_shuffle_epi8(addresses_.of(two), address_order());
  }
  // Lengths and keys, in the order of the device.
  [[nodiscard]] __m128i heads(__m128i two) const noexcept {
    return _mm_or_si128(_mm_shuffle_epi8(two, head_order()), _mm_slli_epi64(key_, 32));
  }
  // Lengths and keys of four handles whose upper words are `upper`: of the first two, and of the
  // others.
  [[nodiscard]] __m128i first_heads(__m128i upper) const noexcept {
    return _mm_unpacklo_epi32(_mm_shuffle_epi8(upper, four_lengths_order()), key_);
  }
  [[nodiscard]] __m128i other_heads(__m128i upper) const noexcept {
    return _mm_unpackhi_epi32(_mm_shuffle_epi8(upper, four_lengths_order()), key_);
  }

 private:
  __m128i key_;  // in each word
  pool::PairOfAddresses addresses_;
};

// Sum of lengths, and whether a packet was empty.
class Lengths {
 public:
  Lengths() = default;
  // Takes over handles that were added and compared as they lie, two in a register.
  Lengths(__m128i sums, __m128i least) noexcept
      : sum_(_mm_srli_epi64(sums, 32)), least_(upper_words(least)) {}

  // The upper words of four handles: a length below what says where the data begin.
  void add_four(__m128i upper) noexcept {
    least_ = _mm_min_epu16(least_, upper);
    sum_ = _mm_add_epi32(sum_, _mm_and_si128(upper, length_bits()));
    asm("" : "+x"(least_), "+x"(sum_));  // both stay where they are from round to round (GCC 12)
  }
  void add(__m128i two) noexcept { add(two, two); }
  // `counted` are handles whose lengths are added, `judged` those that may be empty.
  void add(__m128i counted, __m128i judged) noexcept {
    sum_ = _mm_add_epi32(sum_, _mm_and_si128(_mm_srli_epi64(counted, 32), length_bits()));
    least_ = _mm_min_epu16(least_, upper_words(judged));
  }
  // A row has less than 2^16 packets.
  [[nodiscard]] uint64_t bytes() const noexcept { return sum_of_words(sum_); }
  [[nodiscard]] bool any_empty() const noexcept {
    const __m128i empty = _mm_cmpeq_epi16(least_, _mm_setzero_si128());
    return (_mm_movemask_epi8(empty) & 0x3333) != 0;  // in the lower halves of words
  }

 private:
  static __m128i length_bits() noexcept { return _mm_set1_epi32(0xffff); }
  // The upper words of two handles, each twice.
  static __m128i upper_words(__m128i two) noexcept {
    return _mm_shuffle_epi32(two, _MM_SHUFFLE(3, 3, 1, 1));
  }
  __m128i sum_ = _mm_setzero_si128();
  __m128i least_ = _mm_set1_epi16(-1);
};

// What all WQEs of a row have.
struct RowShape {
  const pool::Arena* arena;
  Lkey key;  // of the arena
  uint8_t offload;
  uint8_t flags;
};

// Puts the data segments of four packets into a row, and copies their handles, whose upper words it
// returns.
template <typename Row>
[[gnu::always_inline]] inline __m128i put_four(Row& row, const Segments& segments,
                                               const pool::Handle* from,
                                               pool::Handle* sent) noexcept {
  const auto* handles = reinterpret_cast<const __m128i*>(from);
  const __m128i first = _mm_loadu_si128(handles), others = _mm_loadu_si128(handles + 1);
  auto* kept = reinterpret_cast<__m128i*>(sent);
  _mm_storeu_si128(kept, first);
  _mm_storeu_si128(kept + 1, others);
  const __m128i upper = _mm_castps_si128(
      _mm_shuffle_ps(_mm_castsi128_ps(first), _mm_castsi128_ps(others), _MM_SHUFFLE(3, 1, 3, 1)));
  __m128i heads = segments.first_heads(upper), addresses = segments.addresses(first);
  row.put(_mm_unpacklo_epi64(heads, addresses));
  row.put(_mm_unpackhi_epi64(heads, addresses));
  heads = segments.other_heads(upper);
  addresses = segments.addresses(others);
  row.put(_mm_unpacklo_epi64(heads, addresses));
  row.put(_mm_unpackhi_epi64(heads, addresses));
  return upper;
}

// Puts the data segments of `in` into a row, two at a time, and copies the handles to `sent`.
template <typename Row>
[[gnu::always_inline]] inline void put_pairs(Row& row, const Segments& segments,
                                             std::span<const pool::Handle> in, pool::Handle* sent,
                                             Lengths& lengths) noexcept {
  std::size_t i = 0;
  for (; i + 2 <= in.size(); i += 2) {
    const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&in[i]));
    const __m128i heads = segments.heads(two), addresses = segments.addresses(two);
    row.put(_mm_unpacklo_epi64(heads, addresses));
    row.put(_mm_unpackhi_epi64(heads, addresses));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sent + i), two);
    lengths.add(two);
  }
  if (i != in.size()) {
    const __m128i one = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&in[i]));
    const __m128i twice = _mm_unpacklo_epi64(one, one);
    row.put(_mm_unpacklo_epi64(segments.heads(twice), segments.addresses(twice)));
    sent[i] = in[i];
    lengths.add(one, twice);
  }
}

// Writes WQEs for all of `in`, at least one, at the cursor's place, where they have room in a row,
// copies the handles to `sent` and adds the packets' lengths to `bytes`. False: one of them is
// empty, and nothing has been appended. Row is queue::EthRow or queue::MpwRow.
template <typename Row>
[[gnu::always_inline]] inline bool append_row(queue::WqeCursor& c, const RowShape& shape,
                                              std::span<const pool::Handle> in, pool::Handle* sent,
                                              uint64_t& bytes) noexcept {
  Row row(c, shape.offload, shape.flags);
  Lengths lengths;
  const Segments segments(*shape.arena, shape.key);
  std::size_t i = 0;
  for (; i + 4 <= in.size(); i += 4) lengths.add_four(put_four(row, segments, &in[i], sent + i));
  if (i != in.size()) put_pairs(row, segments, in.subspan(i), sent + i, lengths);
  if (lengths.any_empty()) return false;
  row.close(c, static_cast<uint32_t>(in.size()));
  bytes += lengths.bytes();
  return true;
}

}  // namespace kilim::inline v1::burst::detail

#endif
