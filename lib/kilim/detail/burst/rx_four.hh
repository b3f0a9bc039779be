// SPDX-License-Identifier: BSD-3-Clause
// Receives of four packets at once: the same handles and side records as one by one (burst/rx.hh),
// in fewer instructions. Owner: the queue's worker. For processors with SSE4.1; on others rx.hh
// takes each packet by itself.
#pragma once

#if defined(__SSE4_1__)

#include <cstddef>
#include <cstdint>

#include <smmintrin.h>

#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/burst/config.hh"
#include "kilim/detail/burst/lanes.hh"
#include "kilim/detail/burst/packet_words.hh"
#include "kilim/detail/pool/arena.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::inline v1::burst::detail {

// Four CQEs that lie in a row.
class FourCqes {
 public:
  FourCqes(const std::byte* first, std::size_t bytes) noexcept : first_(first), bytes_(bytes) {}

  // The 32 bits at `offset` of each CQE, in the order of the CQEs and the bytes of the device. One
  // after the other: a tree of two halves would need an instruction more.
  [[nodiscard]] __m128i words(std::size_t offset) const noexcept {
    __m128i w = _mm_cvtsi32_si128(word(0, offset));
    w = _mm_insert_epi32(w, word(1, offset), 1);
    w = _mm_insert_epi32(w, word(2, offset), 2);
    return _mm_insert_epi32(w, word(3, offset), 3);
  }
  // RTE_PTYPE_* of each, from type_table().
  template <RxConfig C>
  [[nodiscard]] __m128i types(const uint32_t* table) const noexcept {
    __m128i t = _mm_cvtsi32_si128(type<C>(table, 0));
    t = _mm_insert_epi32(t, type<C>(table, 1), 1);
    t = _mm_insert_epi32(t, type<C>(table, 2), 2);
    return _mm_insert_epi32(t, type<C>(table, 3), 3);
  }
  [[nodiscard]] const prm::Cqe& cqe(std::size_t i) const noexcept {
    return *reinterpret_cast<const prm::Cqe*>(first_ + i * bytes_);
  }

 private:
  [[nodiscard]] int word(std::size_t i, std::size_t offset) const noexcept {
    int w;
    __builtin_memcpy(&w, first_ + i * bytes_ + offset, sizeof w);
    return w;
  }
  template <RxConfig C>
  [[nodiscard]] int type(const uint32_t* table, std::size_t i) const noexcept {
    return static_cast<int>(table[type_place<C>(cqe(i))]);
  }
  const std::byte* first_;
  std::size_t bytes_;
};

// What the last word of a received packet's CQE says in its last byte, op_own, where the owner bit
// is `owner`: neither compressed nor an error, and software's.
inline __m128i packet_op_own(uint8_t owner) noexcept {
  const uint8_t wanted = prm::cqe::op_own(prm::CqeOpcode::resp_send, false, owner != 0);
  return _mm_set1_epi32(static_cast<int>(uint32_t{wanted} << 24));
}

// True: all four are such packets.
inline bool are_packets(const FourCqes& four, __m128i op_own) noexcept {
  constexpr uint32_t judged = 0xffu & ~uint32_t{prm::cqe::solicited_bit};
  const __m128i last = four.words(offsetof(prm::Cqe, op_own) - 3);
  return _mm_testz_si128(_mm_xor_si128(last, op_own),
                         _mm_set1_epi32(static_cast<int>(judged << 24))) != 0;
}

// True: none of the four has two segments or more (is_joined()).
inline bool none_joined(const FourCqes& four) noexcept {
  constexpr uint32_t several = be32{prm::cqe::lro_num_seg::at(0xfe)}.raw();
  return _mm_testz_si128(four.words(offsetof(prm::Cqe, srqn_uidx)),
                         _mm_set1_epi32(static_cast<int>(several))) != 0;
}

// Lengths of the packets as 32-bit words; an mbuf's and a handle's are 16 bits long.
inline __m128i length_order() noexcept {
  return _mm_setr_epi8(3, 2, -1, -1, 7, 6, -1, -1, 11, 10, -1, -1, 15, 14, -1, -1);
}
inline __m128i lengths_of(const FourCqes& four) noexcept {
  return _mm_shuffle_epi8(four.words(offsetof(prm::Cqe, byte_cnt)), length_order());
}

inline void store_handles(pool::Handle* out, const uint32_t* indices, __m128i lengths,
                          __m128i meta) noexcept {
  const __m128i index = _mm_loadu_si128(reinterpret_cast<const __m128i*>(indices));
  const __m128i rest = _mm_or_si128(lengths, meta);
  auto* to = reinterpret_cast<__m128i*>(out);
  _mm_storeu_si128(to, _mm_unpacklo_epi32(index, rest));
  _mm_storeu_si128(to + 1, _mm_unpackhi_epi32(index, rest));
}

// The first four words of four side records, a word of each in a register.
struct SideWords {
  __m128i hash, type, flags, vlan;
};

// Four marks as they lie in these words, from the words of the CQEs that end with them.
constexpr std::size_t mark_offset = offsetof(prm::Cqe, sop_drop_qpn);
inline __m128i low_mark_order() noexcept {
  return _mm_setr_epi8(-1, -1, 3, 2, -1, -1, 7, 6, -1, -1, 11, 10, -1, -1, 15, 14);
}
inline __m128i high_mark_order() noexcept {
  return _mm_setr_epi8(-1, -1, -1, 1, -1, -1, -1, 5, -1, -1, -1, 9, -1, -1, -1, 13);
}
constexpr uint32_t mark_bits = be32{0xffffff}.raw();
inline void add_marks(const FourCqes& four, SideWords& w) noexcept {
  const __m128i marks = four.words(mark_offset);
  const __m128i none = _mm_cmpeq_epi32(
      _mm_and_si128(marks, _mm_set1_epi32(static_cast<int>(mark_bits))), _mm_setzero_si128());
  const __m128i flags = _mm_andnot_si128(none, _mm_set1_epi32(static_cast<int>(mark_flags)));
  w.vlan = _mm_or_si128(w.vlan, _mm_shuffle_epi8(marks, low_mark_order()));
  w.flags = _mm_or_si128(_mm_or_si128(w.flags, flags), _mm_shuffle_epi8(marks, high_mark_order()));
}

// They go to their places.
inline void store_sides(pool::SideRecord* sides, const uint32_t* indices,
                        const SideWords& w) noexcept {
  const __m128i low01 = _mm_unpacklo_epi32(w.hash, w.type);
  const __m128i low23 = _mm_unpackhi_epi32(w.hash, w.type);
  const __m128i high01 = _mm_unpacklo_epi32(w.flags, w.vlan);
  const __m128i high23 = _mm_unpackhi_epi32(w.flags, w.vlan);
  const auto store = [&](std::size_t i, __m128i half) noexcept {
    _mm_store_si128(reinterpret_cast<__m128i*>(sides + indices[i]), half);
  };
  store(0, _mm_unpacklo_epi64(low01, high01));
  store(1, _mm_unpackhi_epi64(low01, high01));
  store(2, _mm_unpacklo_epi64(low23, high23));
  store(3, _mm_unpackhi_epi64(low23, high23));
}

template <RxConfig C>
[[gnu::always_inline]] inline void write_sides(pool::SideRecord* sides, const uint32_t* indices,
                                               const FourCqes& four,
                                               const uint32_t* types) noexcept {
  constexpr std::size_t info_offset = offsetof(prm::Cqe, hds_ip_ext);
  static_assert(offsetof(prm::Cqe, l4_hdr_type_etc) == info_offset + 1 &&
                offsetof(prm::Cqe, vlan_info) == info_offset + 2);
  const __m128i big = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
  const __m128i hash = _mm_shuffle_epi8(four.words(offsetof(prm::Cqe, rx_hash_result)), big);
  const __m128i info = four.words(info_offset);
  const __m128i good = _mm_and_si128(_mm_slli_epi32(info, checksum_shift),
                                     _mm_set1_epi32(static_cast<int>(checksum_flags)));
  const __m128i no_hash = _mm_cmpeq_epi32(hash, _mm_setzero_si128());
  __m128i flags =
      _mm_or_si128(good, _mm_andnot_si128(no_hash, _mm_set1_epi32(static_cast<int>(hash_flag))));
  __m128i vlan = _mm_setzero_si128();
  if constexpr (C.vlan) {
    const __m128i tag = _mm_setr_epi8(3, 2, -1, -1, 7, 6, -1, -1, 11, 10, -1, -1, 15, 14, -1, -1);
    vlan = _mm_shuffle_epi8(info, tag);
    // vlan_stripped in the sign bit, then in every bit of the word.
    const __m128i stripped = _mm_srai_epi32(_mm_slli_epi32(info, 23), 31);
    static_assert(uint32_t{prm::cqe::vlan_stripped} << 8 << 23 == 1u << 31);
    flags =
        _mm_or_si128(flags, _mm_and_si128(stripped, _mm_set1_epi32(static_cast<int>(vlan_flags))));
  }
  SideWords words{hash, four.types<C>(types), flags, vlan};
  if constexpr (C.mark) add_marks(four, words);
  store_sides(sides, indices, words);
  if constexpr (C.timestamp) {
    for (std::size_t i = 0; i < 4; i++) sides[indices[i]].timestamp = four.cqe(i).timestamp.host();
  }
}

// What packets are taken from.
struct RxRow {
  queue::Cq::Row cqes;
  std::span<const uint32_t> buffers;  // posted for the next receives
  pool::SideRecord* sides;            // by a buffer's index
  uint32_t meta;                      // of each handle

  // Packets that may be taken in a row into so many places.
  [[nodiscard]] std::size_t most(std::size_t places) const noexcept {
    const std::size_t n = places < cqes.count ? places : cqes.count;
    return buffers.size() < n ? buffers.size() : n;
  }
  // The row without its first `n` packets.
  [[nodiscard]] RxRow behind(uint32_t n) const noexcept {
    RxRow r = *this;
    r.cqes.first += std::size_t{n} * cqes.bytes;
    r.cqes.count -= n;
    r.buffers = buffers.subspan(n);
    return r;
  }
};

// take_fours() of CQEs that lie `step` bytes apart.
template <RxConfig C>
[[gnu::always_inline]] inline uint32_t take_fours_by(std::size_t step, const RxRow from,
                                                     std::span<pool::Handle> out,
                                                     uint64_t& bytes) noexcept {
  const std::size_t whole = from.most(out.size()) & ~std::size_t{3};
  const __m128i metas = _mm_set1_epi32(static_cast<int>(from.meta << 16));
  const __m128i op_own = packet_op_own(from.cqes.owner);
  __m128i sum = _mm_setzero_si128();
  const std::byte* at = from.cqes.first;
  std::size_t n = 0;
  const uint32_t* const types = in_one_register(type_table<C>());
  for (; n != whole; n += 4, at += step * 4) {
    const FourCqes four{at, step};
    if (!are_packets(four, op_own)) break;
    after_owner_bit();
    const __m128i lengths = lengths_of(four);
    sum = in_one_register(_mm_add_epi32(sum, lengths));
    store_handles(&out[n], &from.buffers[n], lengths, metas);
    if constexpr (C.side) write_sides<C>(from.sides, &from.buffers[n], four, types);
  }
  bytes += sum_of_words(in_one_register(sum));
  return static_cast<uint32_t>(n);
}
// Takes CQEs of any size. A function of its own, so that the distance of usual CQEs is a constant
// in the other.
template <RxConfig C>
[[gnu::noinline]] uint32_t take_long_fours(const RxRow from, std::span<pool::Handle> out,
                                           uint64_t& bytes) noexcept {
  return take_fours_by<C>(from.cqes.bytes, from, out, bytes);
}

// Takes packets four at a time, as long as there are four in a row and all are good: writes their
// handles to `out`, adds their lengths to `bytes`, and returns how many.
template <RxConfig C>
[[gnu::always_inline]] inline uint32_t take_fours(const RxRow from, std::span<pool::Handle> out,
                                                  uint64_t& bytes) noexcept {
  if (from.cqes.bytes != sizeof(prm::Cqe)) [[unlikely]] {
    uint64_t more = 0;  // `bytes` stays in a register
    const uint32_t n = take_long_fours<C>(from, out, more);
    bytes += more;
    return n;
  }
  return take_fours_by<C>(sizeof(prm::Cqe), from, out, bytes);
}

}  // namespace kilim::inline v1::burst::detail

#endif
