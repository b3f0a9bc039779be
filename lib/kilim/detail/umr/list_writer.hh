// SPDX-License-Identifier: BSD-3-Clause
// PRM: "KLM". Writes pieces that nobody has looked at as a list, and in the same pass sums their
// lengths and checks each: every piece is read once. One function for any processor, which is
// inlined, and one compiled for AVX2, which is chosen at set-up and called; their bytes, sums and
// refusals are the same. Owner: the queue's worker. Never allocates, blocks or logs; never reads
// behind the last piece.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/base/simd.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/detail/umr/klm_list.hh"
#include "kilim/detail/umr/view.hh"
#include "kilim/prm/umr_seg.hh"

#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

namespace kilim::inline v1::umr {

// The most pieces that a writer takes at once.
inline constexpr uint32_t max_at_once = 64;

// Writes 1 to max_at_once pieces to contiguous lines; `to` is a multiple of 64, and the last line
// is padded with zeroes. Returns the sum of the lengths. 0: one is wrong, or too large for a sum of
// 32 bits; write_list_by() tells the two apart.
using ListWriter = uint64_t (*)(std::byte* to, const Piece* pieces, uint32_t count) noexcept;

// Why write_list_by() returned 0; `limit` is what the refusal of an empty piece names.
[[gnu::cold, gnu::noinline]] inline Outcome why_bad(std::span<const Piece> pieces,
                                                    uint32_t limit) noexcept {
  return why_empty(View::of(pieces), limit);
}

namespace detail {
// The sum with 64 bits, or 0: where a length is too large for the sums of 32 bits below, or wrong.
[[gnu::cold, gnu::noinline]] inline uint64_t sum_exactly(const Piece* pieces,
                                                         uint32_t count) noexcept {
  const View v = View::of({pieces, count});
  return v.count != 0 ? v.length : 0;
}

#if defined(__SSE4_1__)
// Below this the lengths of max_at_once pieces add up within 32 bits.
inline constexpr uint32_t small_bytes = 1u << 26;
static_assert(uint64_t{small_bytes} * max_at_once <= 1ull << 32);

// Lengths are added up less one, in four lanes: 0 becomes the largest number, so that one look at
// all bits seen tells the empty from the small, and no lane may be left out.
struct LengthSum {
  __m128i sum = _mm_setzero_si128();
  __m128i seen = _mm_setzero_si128();
  [[gnu::always_inline]] void add(__m128i lengths) noexcept {
    const __m128i less = _mm_add_epi32(lengths, _mm_set1_epi32(-1));
    sum = _mm_add_epi32(sum, less);
    seen = _mm_or_si128(seen, less);
    asm("" : "+x"(sum));  // added up in this order, which takes the fewest copies
  }
  // Whether each length was 1 to small_bytes.
  [[nodiscard, gnu::always_inline]] bool small() const noexcept {
    return _mm_testz_si128(seen, _mm_set1_epi32(-static_cast<int>(small_bytes))) != 0;
  }
  [[nodiscard, gnu::always_inline]] uint64_t total(uint32_t count) const noexcept {
    const __m128i two = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0b11'10));
    const __m128i one = _mm_add_epi32(two, _mm_shuffle_epi32(two, 0b01));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(one)) + uint64_t{count};
  }
};

// The lengths of the first `count` of up to four pieces; 1 in the place of those that are missing.
[[gnu::always_inline]] inline __m128i lengths_of(const Piece* pieces, uint32_t count) noexcept {
  const auto at = [pieces](uint32_t i) noexcept { return static_cast<int>(pieces[i].length); };
  if (count >= klms_per_line) {
    const __m128i two = _mm_insert_epi32(_mm_cvtsi32_si128(at(0)), at(1), 1);
    return _mm_insert_epi32(_mm_insert_epi32(two, at(2), 2), at(3), 3);
  }
  __m128i some = _mm_insert_epi32(_mm_set1_epi32(1), at(0), 0);
  if (count > 1) some = _mm_insert_epi32(some, at(1), 1);
  if (count > 2) some = _mm_insert_epi32(some, at(2), 2);
  return some;
}

// A whole line.
[[gnu::always_inline]] inline void write_line(std::byte* to, const Piece* pieces,
                                              LengthSum& sum) noexcept {
  store_klm_line(to, pieces);
  sum.add(lengths_of(pieces, klms_per_line));
}
// The last pieces of a list, up to three.
[[gnu::always_inline]] inline void write_tail(std::byte* to, const Piece* pieces, uint32_t count,
                                              LengthSum& sum) noexcept {
  store_klm_tail(to, pieces, count);
  sum.add(lengths_of(pieces, count));
}
#endif
}  // namespace detail

// The writer for any processor.
[[gnu::always_inline]] inline uint64_t write_list(std::byte* to, const Piece* pieces,
                                                  uint32_t count) noexcept {
#if defined(__SSE4_1__)
  KILIM_ASSERT(count != 0 && count <= max_at_once);
  if (count == 0) __builtin_unreachable();
  detail::LengthSum sum;
  const Piece* at = pieces;
  if ((count & klms_per_line) != 0) {
    detail::write_line(to, at, sum);
    at += klms_per_line, to += prm::umr::granule_bytes;
  }
  const Piece* const end = at + (count & ~7u);
  for (; at != end; at += 8, to += std::size_t{2} * prm::umr::granule_bytes) {
    detail::write_line(to, at, sum);
    detail::write_line(to + prm::umr::granule_bytes, at + klms_per_line, sum);
  }
  if (const uint32_t rest = count % klms_per_line; rest != 0) detail::write_tail(to, at, rest, sum);
  return sum.small() ? sum.total(count) : 0;
#else
  store_klm_lines(to, pieces, count);
  return 0;
#endif
}

// write_list() as a function that a table can hold.
inline uint64_t write_list_base(std::byte* to, const Piece* pieces, uint32_t count) noexcept {
  return write_list(to, pieces, count);
}

#if defined(__SSE4_1__)
namespace detail {
// Two pieces, byte-swapped as queue::store_pointer() does one.
KILIM_AVX2 inline void store_two(std::byte* to, __m256i pieces) noexcept {
  const __m256i order = _mm256_setr_epi8(11, 10, 9, 8, 15, 14, 13, 12, 7, 6, 5, 4, 3, 2, 1, 0,  //
                                         11, 10, 9, 8, 15, 14, 13, 12, 7, 6, 5, 4, 3, 2, 1, 0);
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_shuffle_epi8(pieces, order));
}
// In one instruction, where the compiler would make two of an unaligned load (its tuning is that of
// an older processor).
KILIM_AVX2 inline __m256i load_two(const Piece* pieces) noexcept {
  return _mm256_lddqu_si256(reinterpret_cast<const __m256i*>(pieces));
}
// Writes a line; returns the lengths and keys of its four pieces.
KILIM_AVX2 inline __m256i write_line_avx2(std::byte* to, const Piece* pieces) noexcept {
  const __m256i a = load_two(pieces), b = load_two(pieces + 2);
  store_two(to, a);
  store_two(to + 32, b);
  return _mm256_unpackhi_epi64(a, b);
}
// The lengths out of what two lines returned; the order of eight that are added up does not matter.
KILIM_AVX2 inline __m256i lengths_avx2(__m256i a, __m256i b) noexcept {
  return _mm256_castps_si256(
      _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0b10'00'10'00));
}
}  // namespace detail

// The writer for processors with AVX2: eight pieces at a time.
KILIM_AVX2 inline uint64_t write_list_avx2(std::byte* to, const Piece* pieces,
                                           uint32_t count) noexcept {
  KILIM_ASSERT(count != 0 && count <= max_at_once);
  if (count == 0) __builtin_unreachable();
  __m256i sum = _mm256_setzero_si256(), seen = sum;
  const Piece* at = pieces;
  if ((count & klms_per_line) != 0) {
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i four = _mm256_blend_epi32(detail::write_line_avx2(to, at), one, 0b1010'1010);
    sum = seen = _mm256_add_epi32(four, _mm256_set1_epi32(-1));
    at += klms_per_line, to += prm::umr::granule_bytes;
  }
  const Piece* const end = at + (count & ~7u);
  for (; at != end; at += 8, to += std::size_t{2} * prm::umr::granule_bytes) {
    const __m256i a = detail::write_line_avx2(to, at);
    const __m256i b = detail::write_line_avx2(to + prm::umr::granule_bytes, at + klms_per_line);
    const __m256i less = _mm256_add_epi32(detail::lengths_avx2(a, b), _mm256_set1_epi32(-1));
    sum = _mm256_add_epi32(sum, less);
    seen = _mm256_or_si256(seen, less);
  }
  asm("" : "+x"(sum));  // the loop then needs no copies
  detail::LengthSum all{
      _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)),
      _mm_or_si128(_mm256_castsi256_si128(seen), _mm256_extracti128_si256(seen, 1))};
  if (const uint32_t rest = count % klms_per_line; rest != 0) detail::write_tail(to, at, rest, all);
  return all.small() ? all.total(count) : 0;
}
#endif

// A writer and what it needs.
struct ListVariant {
  Simd needs;
  ListWriter write;
};
// All of them, the best first.
inline constexpr auto list_variants = std::array {
#if defined(__SSE4_1__)
  ListVariant{Simd::avx2, &write_list_avx2},
#endif
      ListVariant{Simd::base, &write_list_base},
};

// The best writer for a processor that has `have` (burst::widest_simd()), for lists of `pieces` and
// more. Null: the one that is inlined; the call of another pays from eight pieces on.
constexpr ListWriter select_list_writer(Simd have, uint32_t pieces = max_at_once) noexcept {
  if (pieces < 8) return nullptr;
  for (const ListVariant& v : list_variants)
    if (v.needs != Simd::base && v.needs <= have) return v.write;
  return nullptr;
}

// Writes by `by`, or by the writer for any processor. Returns the sum; 0: a piece is empty or
// longer than 2 GiB (why_bad()).
[[gnu::always_inline]] inline uint64_t write_list_by(ListWriter by, std::byte* to,
                                                     const Piece* pieces, uint32_t count) noexcept {
  const uint64_t length = by == nullptr ? write_list(to, pieces, count) : by(to, pieces, count);
  if (length == 0) [[unlikely]]
    return detail::sum_exactly(pieces, count);
  return length;
}

// A list of any length, for memory that a list by pointer names.
inline uint64_t write_long_list(ListWriter by, std::byte* to,
                                std::span<const Piece> pieces) noexcept {
  const ListWriter write = by == nullptr ? &write_list_base : by;  // one copy of each is enough
  uint64_t length = 0;
  while (!pieces.empty()) {
    const std::size_t n = pieces.size() < max_at_once ? pieces.size() : max_at_once;
    const uint64_t sum = write_list_by(write, to, pieces.data(), static_cast<uint32_t>(n));
    if (sum == 0) return 0;
    length += sum;
    to += n * sizeof(prm::Klm);
    pieces = pieces.subspan(n);
  }
  return length;
}

}  // namespace kilim::inline v1::umr
