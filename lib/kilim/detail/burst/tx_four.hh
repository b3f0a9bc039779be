// SPDX-License-Identifier: BSD-3-Clause
// Transmit of packets of one buffer each, four at a time with AVX2: the same WQEs as two at a time
// (burst/tx_row.hh). Owner: the queue's worker.
#pragma once

#if defined(__SSE4_1__)

#include <cstddef>
#include <cstdint>
#include <span>

#include <immintrin.h>

#include "kilim/detail/burst/simd.hh"
#include "kilim/detail/burst/tx_row.hh"

namespace kilim::inline v1::burst::detail {

// From handles, four in a register, to their data segments: Segments and Lengths, twice as wide.
class WideSegments {
 public:
  KILIM_AVX2 WideSegments(const pool::Arena& arena, Lkey key) noexcept
      : key_(upper(be32{key.value()})),
        first_(_mm256_set1_epi64x(static_cast<long long>(arena.first_address().value()))),
        stride_(_mm256_set1_epi64x(arena.stride())) {}

  // In the order of the device: addresses, then lengths and keys.
  [[nodiscard]] KILIM_AVX2 __m256i addresses(__m256i four) const noexcept {
    const __m256i offset = _mm256_srli_epi64(four, pool::offset_bit);
    const __m256i buffer = _mm256_add_epi64(_mm256_mul_epu32(four, stride_), first_);
    return _mm256_shuffle_epi8(_mm256_add_epi64(buffer, offset),
                               _mm256_broadcastsi128_si256(address_order()));
  }
  [[nodiscard]] KILIM_AVX2 __m256i heads(__m256i four) const noexcept {
    return _mm256_or_si256(_mm256_shuffle_epi8(four, _mm256_broadcastsi128_si256(head_order())),
                           key_);
  }

 private:
  KILIM_AVX2 static __m256i upper(be32 word) noexcept {
    return _mm256_slli_epi64(_mm256_set1_epi64x(word.raw()), 32);
  }
  __m256i key_;
  __m256i first_;
  __m256i stride_;
};

class WideLengths {
 public:
  KILIM_AVX2 WideLengths() noexcept : sum_(_mm256_setzero_si256()), least_(_mm256_set1_epi16(-1)) {}
  KILIM_AVX2 void add(__m256i four) noexcept {
    sum_ = _mm256_add_epi64(sum_, _mm256_and_si256(four, _mm256_set1_epi64x(0xffffll << 32)));
    least_ = _mm256_min_epu16(least_, four);
  }
  [[nodiscard]] KILIM_AVX2 Lengths halves() const noexcept {
    const __m128i sums =
        _mm_add_epi64(_mm256_castsi256_si128(sum_), _mm256_extracti128_si256(sum_, 1));
    const __m128i least =
        _mm_min_epu16(_mm256_castsi256_si128(least_), _mm256_extracti128_si256(least_, 1));
    return {sums, least};
  }

 private:
  __m256i sum_;
  __m256i least_;
};

// Appends like append_row().
template <typename Row>
KILIM_AVX2 inline bool append_row_avx2(queue::WqeCursor& c, const RowShape& shape,
                                       std::span<const pool::Handle> in, pool::Handle* sent,
                                       uint64_t& bytes) noexcept {
  const WideSegments segments(*shape.arena, shape.key);
  Row row(c, shape.offload, shape.flags);
  WideLengths lengths;
  std::size_t i = 0;
  for (; i + 4 <= in.size(); i += 4) {
    const __m256i four = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&in[i]));
    const __m256i heads = segments.heads(four), addresses = segments.addresses(four);
    row.put_four(_mm256_unpacklo_epi64(heads, addresses), _mm256_unpackhi_epi64(heads, addresses));
    lengths.add(four);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sent + i), four);
  }
  Lengths all = lengths.halves();
  if (i != in.size())
    put_pairs(row, Segments(*shape.arena, shape.key), in.subspan(i), sent + i, all);
  if (all.any_empty()) return false;
  row.close(c, static_cast<uint32_t>(in.size()));
  bytes += all.bytes();
  return true;
}

}  // namespace kilim::inline v1::burst::detail

#endif
