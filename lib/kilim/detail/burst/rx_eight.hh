// SPDX-License-Identifier: BSD-3-Clause
// Receives of eight packets at once with AVX2: the same handles and side records as four at once
// (burst/rx_four.hh), whose words it joins. Owner: the queue's worker.
#pragma once

#if defined(__SSE4_1__)

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "kilim/detail/burst/rx_four.hh"
#include "kilim/detail/burst/simd.hh"

namespace kilim::inline v1::burst::detail {

KILIM_AVX2 inline __m256i joined(__m128i low, __m128i high) noexcept {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
KILIM_AVX2 inline __m256i all_words(uint32_t word) noexcept {
  return _mm256_set1_epi32(static_cast<int>(word));
}

// A word of each of eight packets, in the byte order of the device.
struct EightWords {
  __m256i hash;  // rx_hash_result
  __m256i info;  // hds_ip_ext, l4_hdr_type_etc, vlan_info
};

// The first half of a CQE. Its quarters end with hash and info.
KILIM_AVX2 inline __m256i first_half(const prm::Cqe& e) noexcept {
  static_assert(offsetof(prm::Cqe, rx_hash_result) == 12 && offsetof(prm::Cqe, hds_ip_ext) == 28);
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(&e));
}

// Hashes of four CQEs in the lower half, their info in the upper. Aligned loads are part of the
// unpacking; compilers make two of others (GCC 12, -march=corei7).
KILIM_AVX2 inline __m256i hash_and_info(const FourCqes& four) noexcept {
  const __m256i low = _mm256_unpackhi_epi32(first_half(four.cqe(0)), first_half(four.cqe(1)));
  const __m256i high = _mm256_unpackhi_epi32(first_half(four.cqe(2)), first_half(four.cqe(3)));
  return _mm256_unpackhi_epi64(low, high);
}

KILIM_AVX2 inline EightWords words_of(const FourCqes& first, const FourCqes& second) noexcept {
  const __m256i a = hash_and_info(first), b = hash_and_info(second);
  return {_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)};
}

// A byte of packet_types by the two bits of L3, and by the four of L4, in IP packets.
constexpr char l3_byte(uint32_t l3) noexcept {
  return static_cast<char>(packet_types[l3 << prm::cqe::l3_type_shift] & RTE_PTYPE_L3_MASK);
}
constexpr char l4_byte(uint32_t l4) noexcept {
  constexpr uint32_t ip = prm::cqe::l3_ipv4 << prm::cqe::l3_type_shift;
  return static_cast<char>((packet_types[l4 << prm::cqe::l4_type_shift | ip] & RTE_PTYPE_L4_MASK) >>
                           8);
}
static_assert([] {
  for (uint32_t i = 0; i < packet_types.size(); i++) {
    const uint32_t l3 = static_cast<uint8_t>(l3_byte(i >> prm::cqe::l3_type_shift & 3));
    const uint32_t l4 = l3 == 0 ? 0u : uint32_t(l4_byte(i >> prm::cqe::l4_type_shift)) << 8;
    if (packet_types[i] != (RTE_PTYPE_L2_ETHER | l3 | l4)) return false;
  }
  return true;
}());

// packet_types of the second byte of each word, l4_hdr_type_etc: two tables in registers, as loads
// from the large one take longer. `one`: RTE_PTYPE_L2_ETHER everywhere.
KILIM_AVX2 inline __m256i types_of(__m256i info, __m256i one) noexcept {
  static_assert(RTE_PTYPE_L2_ETHER == 1 && prm::cqe::l4_type_shift == 4);
  const __m256i l3s = _mm256_broadcastsi128_si256(_mm_setr_epi8(
      l3_byte(0), l3_byte(1), l3_byte(2), l3_byte(3), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  const __m256i l4s = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(l4_byte(0), l4_byte(1), l4_byte(2), l4_byte(3), l4_byte(4), l4_byte(5),
                    l4_byte(6), l4_byte(7), l4_byte(8), l4_byte(9), l4_byte(10), l4_byte(11),
                    l4_byte(12), l4_byte(13), l4_byte(14), l4_byte(15)));
  const __m256i second = all_words(0xf00);
  const __m256i l4 = _mm256_and_si256(_mm256_srli_epi32(info, 4), second);
  constexpr int above = 32 - 2 - 8 - prm::cqe::l3_type_shift;  // bits above those of L3
  const __m256i l3 = _mm256_srli_epi32(_mm256_slli_epi32(info, above), 30);
  const __m256i lower = _mm256_shuffle_epi8(l3s, l3);
  const __m256i upper = _mm256_and_si256(_mm256_shuffle_epi8(l4s, l4), second);
  const __m256i other = _mm256_cmpeq_epi32(lower, _mm256_setzero_si256());  // than IP
  return _mm256_or_si256(_mm256_or_si256(lower, one), _mm256_andnot_si256(other, upper));
}

// In the order of the host, as are_packets() and lengths_of().
KILIM_AVX2 inline bool are_packets(const FourCqes& first, const FourCqes& second,
                                   __m256i op_own) noexcept {
  constexpr uint32_t judged = 0xffu & ~uint32_t{prm::cqe::solicited_bit};
  constexpr std::size_t last = offsetof(prm::Cqe, op_own) - 3;
  const __m256i words = joined(first.words(last), second.words(last));
  return _mm256_testz_si256(_mm256_xor_si256(words, op_own), all_words(judged << 24)) != 0;
}

// In pieces of 16 bytes, as transmit reads them: a load of what two stores wrote waits for both.
KILIM_AVX2 inline void store_handles(pool::Handle* out, const uint32_t* indices, __m256i lengths,
                                     __m256i meta) noexcept {
  const __m256i index = joined(_mm_loadu_si128(reinterpret_cast<const __m128i*>(indices)),
                               _mm_loadu_si128(reinterpret_cast<const __m128i*>(indices + 4)));
  const __m256i rest = _mm256_or_si256(lengths, meta);
  const __m256i low = _mm256_unpacklo_epi32(index, rest);   // 0 1 4 5
  const __m256i high = _mm256_unpackhi_epi32(index, rest);  // 2 3 6 7
  auto* to = reinterpret_cast<__m128i*>(out);
  _mm_storeu_si128(to, _mm256_castsi256_si128(low));
  _mm_storeu_si128(to + 1, _mm256_castsi256_si128(high));
  _mm_storeu_si128(to + 2, _mm256_extracti128_si256(low, 1));
  _mm_storeu_si128(to + 3, _mm256_extracti128_si256(high, 1));
}

// The first 16 bytes of two side records.
KILIM_AVX2 inline void store_two_sides(pool::SideRecord& low, pool::SideRecord& high,
                                       __m256i both) noexcept {
  _mm_store_si128(reinterpret_cast<__m128i*>(&low), _mm256_castsi256_si128(both));
  _mm_store_si128(reinterpret_cast<__m128i*>(&high), _mm256_extracti128_si256(both, 1));
}

// SideWords of eight packets, in their order.
struct EightSideWords {
  __m256i hash, type, flags, vlan;
};
KILIM_AVX2 [[gnu::always_inline]] inline void store_sides(pool::SideRecord* sides,
                                                          const uint32_t* indices,
                                                          const EightSideWords& w) noexcept {
  const __m256i a = _mm256_unpacklo_epi32(w.hash, w.type);
  const __m256i b = _mm256_unpackhi_epi32(w.hash, w.type);
  const __m256i c = _mm256_unpacklo_epi32(w.flags, w.vlan);
  const __m256i d = _mm256_unpackhi_epi32(w.flags, w.vlan);
  store_two_sides(sides[indices[0]], sides[indices[4]], _mm256_unpacklo_epi64(a, c));
  store_two_sides(sides[indices[1]], sides[indices[5]], _mm256_unpackhi_epi64(a, c));
  store_two_sides(sides[indices[2]], sides[indices[6]], _mm256_unpacklo_epi64(b, d));
  store_two_sides(sides[indices[3]], sides[indices[7]], _mm256_unpackhi_epi64(b, d));
}

// Does for eight what add_marks() does for four.
KILIM_AVX2 inline void add_marks(const FourCqes& first, const FourCqes& second, __m256i& flags,
                                 __m256i& vlan) noexcept {
  const __m256i marks = joined(first.words(mark_offset), second.words(mark_offset));
  const __m256i none =
      _mm256_cmpeq_epi32(_mm256_and_si256(marks, all_words(mark_bits)), _mm256_setzero_si256());
  const __m256i low = _mm256_broadcastsi128_si256(low_mark_order());
  const __m256i high = _mm256_broadcastsi128_si256(high_mark_order());
  vlan = _mm256_or_si256(vlan, _mm256_shuffle_epi8(marks, low));
  flags = _mm256_or_si256(flags, _mm256_andnot_si256(none, all_words(mark_flags)));
  flags = _mm256_or_si256(flags, _mm256_shuffle_epi8(marks, high));
}

template <RxConfig C>
KILIM_AVX2 [[gnu::always_inline]] inline void write_sides(pool::SideRecord* sides,
                                                          const uint32_t* indices,
                                                          const FourCqes& first,
                                                          const FourCqes& second) noexcept {
  const __m256i big = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
  const EightWords words = words_of(first, second);
  const __m256i hash = _mm256_shuffle_epi8(words.hash, big), info = words.info;
  const __m256i one = all_words(1);
  __m256i type;
  if constexpr (C.tunnel)
    type = joined(first.types<C>(type_table<C>()), second.types<C>(type_table<C>()));
  else
    type = types_of(info, one);
  const __m256i zero = _mm256_setzero_si256();
  const __m256i good =
      _mm256_and_si256(_mm256_slli_epi32(info, checksum_shift), all_words(checksum_flags));
  static_assert(hash_flag == 1u << 1);
  __m256i flags = _mm256_or_si256(good, _mm256_slli_epi32(_mm256_min_epu32(hash, one), 1));
  __m256i vlan = zero;
  if constexpr (C.vlan) {
    vlan =
        _mm256_shuffle_epi8(info, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                      3, 2, -1, -1, 7, 6, -1, -1, 11, 10, -1, -1, 15, 14, -1, -1)));
    // vlan_stripped in the sign bit, then in every bit of the word.
    const __m256i stripped = _mm256_srai_epi32(_mm256_slli_epi32(info, 31 - 8), 31);
    flags = _mm256_or_si256(flags, _mm256_and_si256(stripped, all_words(vlan_flags)));
  }
  if constexpr (C.mark) add_marks(first, second, flags, vlan);
  store_sides(sides, indices, EightSideWords{hash, type, flags, vlan});
  if constexpr (C.timestamp) {
    for (std::size_t i = 0; i < 4; i++) {
      sides[indices[i]].timestamp = first.cqe(i).timestamp.host();
      sides[indices[i + 4]].timestamp = second.cqe(i).timestamp.host();
    }
  }
}

// Takes eight at a time, like take_fours_by(), take_long_fours() and take_fours().
template <RxConfig C>
KILIM_AVX2 [[gnu::always_inline]] inline uint32_t take_eights_by(std::size_t step, const RxRow from,
                                                                 std::span<pool::Handle> out,
                                                                 uint64_t& bytes) noexcept {
  const std::size_t whole = from.most(out.size()) & ~std::size_t{7};
  const __m256i metas = all_words(from.meta << 16);
  const __m256i op_own = _mm256_broadcastsi128_si256(packet_op_own(from.cqes.owner));
  const __m256i order = _mm256_broadcastsi128_si256(length_order());
  __m256i sum = _mm256_setzero_si256();
  const std::byte* at = from.cqes.first;
  std::size_t n = 0;
  for (; n != whole; n += 8, at += step * 8) {
    const FourCqes first{at, step}, second{at + step * 4, step};
    if (!are_packets(first, second, op_own)) break;
    after_owner_bit();
    constexpr std::size_t length = offsetof(prm::Cqe, byte_cnt);
    const __m256i lengths =
        _mm256_shuffle_epi8(joined(first.words(length), second.words(length)), order);
    sum = _mm256_add_epi32(sum, lengths);
    asm("" : "+x"(sum));  // as in_one_register()
    const uint32_t* const indices = &from.buffers[n];
    store_handles(&out[n], indices, lengths, metas);
    if constexpr (C.side) write_sides<C>(from.sides, indices, first, second);
  }
  bytes +=
      sum_of_words(_mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)));
  return static_cast<uint32_t>(n);
}

template <RxConfig C>
KILIM_AVX2 [[gnu::noinline]] uint32_t take_long_eights(const RxRow from,
                                                       std::span<pool::Handle> out,
                                                       uint64_t& bytes) noexcept {
  return take_eights_by<C>(from.cqes.bytes, from, out, bytes);
}
template <RxConfig C>
KILIM_AVX2 inline uint32_t take_eights(const RxRow from, std::span<pool::Handle> out,
                                       uint64_t& bytes) noexcept {
  if (from.cqes.bytes != sizeof(prm::Cqe)) [[unlikely]] {
    uint64_t more = 0;
    const uint32_t n = take_long_eights<C>(from, out, more);
    bytes += more;
    return n;
  }
  return take_eights_by<C>(sizeof(prm::Cqe), from, out, bytes);
}

}  // namespace kilim::inline v1::burst::detail

#endif
