// SPDX-License-Identifier: BSD-3-Clause
// Words of four mbufs at once, of a compressed block or of CQEs in a row: what write_mbuf() writes
// into each (net/kilim/mbuf_words.hh). Owner: the queue's lcore. Never allocates, blocks, logs or
// calls the system. For processors with SSE4.1.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rte_mbuf.h>

#include "kilim/detail/burst/packet_words.hh"
#include "kilim/prm/cqe.hh"
#include "net/kilim/mbuf_words.hh"

#if defined(__SSE4_1__)
#include <smmintrin.h>
#endif

namespace kilim::net {

// The packets of a compressed block share these words.
struct BlockWords {
  uint64_t rearm, flags;  // ol_flags without that of a hash
  uint32_t type;          // RTE_PTYPE_*
  uint16_t vlan;
  bool mini_hash;  // the minis say the hash; else they say none
};

#if defined(__SSE4_1__)

inline void store_reset(rte_mbuf& m, __m128i reset) noexcept {
  static_assert(offsetof(rte_mbuf, rearm_data) % sizeof reset == 0 &&
                offsetof(rte_mbuf, ol_flags) == offsetof(rte_mbuf, rearm_data) + 8);
  _mm_store_si128(reinterpret_cast<__m128i*>(&m.rearm_data), reset);
}
// Type, both lengths, tag and hash.
inline void store_line(rte_mbuf& m, __m128i line) noexcept {
  static_assert(offsetof(rte_mbuf, packet_type) % sizeof line == 0 &&
                offsetof(rte_mbuf, pkt_len) == offsetof(rte_mbuf, packet_type) + 4 &&
                offsetof(rte_mbuf, data_len) == offsetof(rte_mbuf, packet_type) + 8 &&
                offsetof(rte_mbuf, vlan_tci) == offsetof(rte_mbuf, packet_type) + 10 &&
                offsetof(rte_mbuf, hash) == offsetof(rte_mbuf, packet_type) + 12);
  _mm_store_si128(reinterpret_cast<__m128i*>(&m.packet_type), line);
}
inline void copy_four(rte_mbuf** to, rte_mbuf* const* from) noexcept {
  const auto* source = reinterpret_cast<const __m128i*>(from);
  const __m128i low = _mm_loadu_si128(source), high = _mm_loadu_si128(source + 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), low);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to) + 1, high);
}

// Writes the addresses of two mbufs' data into WQEs that lie `step` bytes apart.
[[gnu::always_inline]] inline void store_two_addresses(std::byte* to, std::size_t step,
                                                       rte_mbuf* const* two,
                                                       uint64_t headroom) noexcept {
  const __m128i order = _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
  const __m128d low = _mm_load_sd(reinterpret_cast<const double*>(&two[0]->buf_addr));
  const __m128d both = _mm_loadh_pd(low, reinterpret_cast<const double*>(&two[1]->buf_addr));
  const __m128i host =
      _mm_add_epi64(_mm_castpd_si128(both), _mm_set1_epi64x(static_cast<long long>(headroom)));
  const __m128d big = _mm_castsi128_pd(_mm_shuffle_epi8(host, order));
  _mm_storel_pd(reinterpret_cast<double*>(to), big);
  _mm_storeh_pd(reinterpret_cast<double*>(to + step), big);
}

// BlockWords in registers.
class BlockFours {
 public:
  explicit BlockFours(const BlockWords& w) noexcept
      : reset_(_mm_set_epi64x(
            static_cast<long long>(w.flags | (w.mini_hash ? uint64_t{burst::hash_flag} : 0)),
            static_cast<long long>(w.rearm))),
        line_(_mm_setr_epi32(static_cast<int>(w.type), 0, static_cast<int>(uint32_t{w.vlan} << 16),
                             0)),
        hashed_(_mm_set1_epi32(w.mini_hash ? -1 : 0)),
        even_(first_order(w.mini_hash)),
        odd_(second_order(w.mini_hash)),
        flags_(w.flags) {}

  // Takes the packets of four minis that lie in one entry; returns what has the sum of their
  // lengths in its second word.
  [[gnu::always_inline]] __m128i take(const prm::MiniCqe* minis, rte_mbuf* const* from,
                                      rte_mbuf** out) const noexcept {
    const auto* two = reinterpret_cast<const __m128i*>(minis);
    const __m128i low = _mm_load_si128(two), high = _mm_load_si128(two + 1);
    copy_four(out, from);
    const __m128i a = put(*from[0], low, even_), b = put(*from[1], low, odd_);
    const __m128i c = put(*from[2], high, even_), d = put(*from[3], high, odd_);
    const __m128i results = _mm_castps_si128(
        _mm_shuffle_ps(_mm_castsi128_ps(low), _mm_castsi128_ps(high), _MM_SHUFFLE(2, 0, 2, 0)));
    const __m128i none = _mm_cmpeq_epi32(results, _mm_setzero_si128());
    if (_mm_testz_si128(none, hashed_) == 0) [[unlikely]]
      end_hashes(none, from);
    return _mm_add_epi32(_mm_add_epi32(a, b), _mm_add_epi32(c, d));
  }

 private:
  // Length, and hash where minis say it, of the first or second of two minis.
  static __m128i first_order(bool mini_hash) noexcept {
    return mini_hash ? _mm_setr_epi8(-1, -1, -1, -1, 7, 6, -1, -1, 7, 6, -1, -1, 3, 2, 1, 0)
                     : _mm_setr_epi8(-1, -1, -1, -1, 7, 6, -1, -1, 7, 6, -1, -1, -1, -1, -1, -1);
  }
  static __m128i second_order(bool mini_hash) noexcept {
    return mini_hash
               ? _mm_setr_epi8(-1, -1, -1, -1, 15, 14, -1, -1, 15, 14, -1, -1, 11, 10, 9, 8)
               : _mm_setr_epi8(-1, -1, -1, -1, 15, 14, -1, -1, 15, 14, -1, -1, -1, -1, -1, -1);
  }
  [[gnu::always_inline]] __m128i put(rte_mbuf& m, __m128i minis, __m128i order) const noexcept {
    const __m128i line = _mm_or_si128(_mm_shuffle_epi8(minis, order), line_);
    store_reset(m, reset_);
    store_line(m, line);
    return line;
  }
  // A hash of 0 means none.
  void end_hashes(__m128i none, rte_mbuf* const* from) const noexcept {
    const int which = _mm_movemask_ps(_mm_castsi128_ps(none));
    for (int i = 0; i < 4; i++)
      if ((which >> i & 1) != 0) from[i]->ol_flags = flags_;
  }

  __m128i reset_, line_, hashed_, even_, odd_;
  uint64_t flags_;
};

// The 32 bits at `offset` of each of four CQEs in a row, in the bytes of the device.
[[gnu::always_inline]] inline __m128i words_of(const prm::Cqe* four, std::size_t offset) noexcept {
  const auto word = [&](std::size_t i) noexcept {
    int w;
    __builtin_memcpy(&w, reinterpret_cast<const std::byte*>(four + i) + offset, sizeof w);
    return w;
  };
  __m128i words = _mm_cvtsi32_si128(word(0));
  words = _mm_insert_epi32(words, word(1), 1);
  words = _mm_insert_epi32(words, word(2), 2);
  return _mm_insert_epi32(words, word(3), 3);
}

// write_mbuf<false>() of four CQEs in a row.
class RowFours {
 public:
  // `owner`: the owner bit of CQEs that are written.
  RowFours(Fresh fresh, uint8_t owner) noexcept
      : op_own_(_mm_set1_epi32(static_cast<int>(
            uint32_t{prm::cqe::op_own(prm::CqeOpcode::resp_send, false, owner != 0)} << 24))),
        rearm_(_mm_set_epi64x(0, static_cast<long long>(fresh.rearm))),
        flags_(_mm_set1_epi64x(static_cast<long long>(fresh.flags))) {}

  // True: all four are written, and neither compressed nor errors.
  [[gnu::always_inline]] bool are_packets(const prm::Cqe* four) const noexcept {
    constexpr uint32_t judged = 0xffu & ~uint32_t{prm::cqe::solicited_bit};
    const __m128i last = words_of(four, offsetof(prm::Cqe, op_own) - 3);
    return _mm_testz_si128(_mm_xor_si128(last, op_own_),
                           _mm_set1_epi32(static_cast<int>(judged << 24))) != 0;
  }
  // Returns what has the sum of their lengths in its second word.
  [[gnu::always_inline]] __m128i take(const prm::Cqe* four, rte_mbuf* const* from,
                                      rte_mbuf** out) const noexcept {
    copy_four(out, from);
    const __m128i a = line_of(four[0]), b = line_of(four[1]);
    const __m128i c = line_of(four[2]), d = line_of(four[3]);
    store_line(*from[0], a);
    store_line(*from[1], b);
    store_line(*from[2], c);
    store_line(*from[3], d);
    const __m128i hash = _mm_unpackhi_epi64(_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
    const __m128i none = _mm_cmpeq_epi32(hash, _mm_setzero_si128());
    const __m128i info = words_of(four, offsetof(prm::Cqe, hds_ip_ext));
    const __m128i good = _mm_and_si128(_mm_slli_epi32(info, burst::checksum_shift),
                                       _mm_set1_epi32(static_cast<int>(burst::checksum_flags)));
    const __m128i flags = _mm_or_si128(
        good, _mm_andnot_si128(none, _mm_set1_epi32(static_cast<int>(burst::hash_flag))));
    const __m128i low = _mm_or_si128(_mm_cvtepu32_epi64(flags), flags_);
    const __m128i high = _mm_or_si128(_mm_unpackhi_epi32(flags, _mm_setzero_si128()), flags_);
    constexpr int upper_half = 0xf0;
    store_reset(*from[0], _mm_unpacklo_epi64(rearm_, low));
    store_reset(*from[1], _mm_blend_epi16(rearm_, low, upper_half));
    store_reset(*from[2], _mm_unpacklo_epi64(rearm_, high));
    store_reset(*from[3], _mm_blend_epi16(rearm_, high, upper_half));
    return _mm_add_epi32(_mm_add_epi32(a, b), _mm_add_epi32(c, d));
  }

 private:
  __m128i op_own_, rearm_, flags_;
};

#endif

}  // namespace kilim::net
