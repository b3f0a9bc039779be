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

#include "kilim/base/assert.hh"
#include "kilim/base/ident.hh"
#include "kilim/pool/arena.hh"
#include "kilim/pool/each_data.hh"
#include "kilim/pool/handle.hh"
#include "kilim/queue/eth_row.hh"

namespace kilim::burst::detail {

// Where the bytes of an address, and of a segment's length, come from.
inline __m128i address_order() noexcept {
  return _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
}
inline __m128i head_order() noexcept {
  return _mm_setr_epi8(-1, -1, 5, 4, -1, -1, -1, -1, -1, -1, 13, 12, -1, -1, -1, -1);
}

// From handles, two in a register, to their data segments.
class Segments {
 public:
  Segments(const pool::Arena& arena, Lkey key) noexcept
      : key_(upper(be32{key.value()})), addresses_(arena.first_address().value(), arena.stride()) {}

  // Addresses of the data, in the order of the device.
  [[nodiscard]] __m128i addresses(__m128i two) const noexcept {
    return _mm_shuffle_epi8(addresses_.of(two), address_order());
  }
  // Lengths and keys, in the order of the device.
  [[nodiscard]] __m128i heads(__m128i two) const noexcept {
    return _mm_or_si128(_mm_shuffle_epi8(two, head_order()), key_);
  }

 private:
  static __m128i upper(be32 word) noexcept {
    return _mm_slli_epi64(_mm_set1_epi64x(word.raw()), 32);
  }
  __m128i key_;  // in the upper half of each lane
  pool::PairOfAddresses addresses_;
};

// Sum of lengths, and whether a packet was empty.
class Lengths {
 public:
  Lengths() = default;
  Lengths(__m128i sum, __m128i least) noexcept : sum_(sum), least_(least) {}
  void add(__m128i two) noexcept { add(two, two); }
  // `counted` are handles whose lengths are added, `judged` those that may be empty.
  void add(__m128i counted, __m128i judged) noexcept {
    sum_ = _mm_add_epi64(sum_, _mm_and_si128(counted, _mm_set1_epi64x(0xffffll << 32)));
    least_ = _mm_min_epu16(least_, judged);
  }
  [[nodiscard]] uint64_t bytes() const noexcept {
    return static_cast<uint32_t>(_mm_extract_epi32(sum_, 1)) +
           uint64_t{static_cast<uint32_t>(_mm_extract_epi32(sum_, 3))};
  }
  // True: the length, bits 47:32 of a handle, of one was 0.
  [[nodiscard]] bool any_empty() const noexcept {
    return _mm_extract_epi16(least_, 2) == 0 || _mm_extract_epi16(least_, 6) == 0;
  }

 private:
  __m128i sum_ = _mm_setzero_si128();  // in the upper words; a row has less than 2^16 packets
  __m128i least_ = _mm_set1_epi16(-1);
};

// The same of four packets at once.
class FourLengths {
 public:
  void add(__m128i first, __m128i second) noexcept {
    // The upper words of the handles: a length below what says where the data begin.
    const __m128i upper = _mm_castps_si128(
        _mm_shuffle_ps(_mm_castsi128_ps(first), _mm_castsi128_ps(second), _MM_SHUFFLE(3, 1, 3, 1)));
    sum_ = _mm_add_epi32(sum_, _mm_and_si128(upper, _mm_set1_epi32(0xffff)));
    least_ = _mm_min_epu16(least_, upper);
  }
  [[nodiscard]] Lengths of_pairs() const noexcept {
    const __m128i sums = _mm_add_epi32(sum_, _mm_srli_si128(sum_, 8));
    const __m128i least = _mm_min_epu16(least_, _mm_shuffle_epi32(least_, _MM_SHUFFLE(3, 2, 3, 2)));
    return {_mm_unpacklo_epi32(_mm_setzero_si128(), sums), _mm_unpacklo_epi32(least, least)};
  }

 private:
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

// Puts the data segments of two packets into a row, and copies their handles, which it returns.
template <typename Row>
[[gnu::always_inline]] inline __m128i put_two(Row& row, const Segments& segments,
                                              const pool::Handle* from,
                                              pool::Handle* sent) noexcept {
  const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m128i heads = segments.heads(two), addresses = segments.addresses(two);
  row.put(_mm_unpacklo_epi64(heads, addresses));
  row.put(_mm_unpackhi_epi64(heads, addresses));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(sent), two);
  return two;
}

// Puts the data segments of `in` into a row, two at a time, and copies the handles to `sent`.
template <typename Row>
[[gnu::always_inline]] inline void put_pairs(Row& row, const Segments& segments,
                                             std::span<const pool::Handle> in, pool::Handle* sent,
                                             Lengths& lengths) noexcept {
  std::size_t i = 0;
  for (; i + 2 <= in.size(); i += 2) lengths.add(put_two(row, segments, &in[i], sent + i));
  if (i != in.size()) {
    const __m128i one = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&in[i]));
    const __m128i twice = _mm_unpacklo_epi64(one, one);
    row.put(_mm_unpacklo_epi64(segments.heads(twice), segments.addresses(twice)));
    sent[i] = in[i];
    lengths.add(one, twice);
  }
}

// Writes WQEs for all of `in`, at least one, at the cursor's place, where they have room in a row,
// and copies the handles to `sent`. Returns the bytes of all; 0: one of them is empty, and nothing
// has been appended. Row is queue::EthRow or queue::MpwRow.
template <typename Row>
[[gnu::always_inline]] inline uint64_t append_row(queue::WqeCursor& c, const RowShape& shape,
                                                  std::span<const pool::Handle> in,
                                                  pool::Handle* sent) noexcept {
  Row row(c, shape.offload, shape.flags);
  FourLengths fours;
  const Segments segments(*shape.arena, shape.key);
  std::size_t i = 0;
  for (; i + 4 <= in.size(); i += 4) {
    const __m128i first = put_two(row, segments, &in[i], sent + i);
    fours.add(first, put_two(row, segments, &in[i + 2], sent + i + 2));
  }
  Lengths lengths = fours.of_pairs();
  if (i != in.size()) put_pairs(row, segments, in.subspan(i), sent + i, lengths);
  if (lengths.any_empty()) return 0;
  row.close(c, static_cast<uint32_t>(in.size()));
  return lengths.bytes();
}

}  // namespace kilim::burst::detail

#endif
