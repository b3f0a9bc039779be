// SPDX-License-Identifier: BSD-3-Clause
// From a CQE to the words of an mbuf, for the receive bursts of mbufs, whatever their receives are.
// Owner: the queue's lcore. Never allocates, blocks, logs or calls the system.
#pragma once

#include <cstdint>
#include <cstring>

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/mmio.hh"
#include "kilim/detail/burst/joined.hh"
#include "kilim/detail/burst/packet_words.hh"
#include "kilim/prm/cqe.hh"
#include "net/kilim/mbuf_rx.hh"

#if defined(__SSE4_1__)
#include <smmintrin.h>
#endif

namespace kilim::net {

inline void ring_rx(MbufRx& q) noexcept {
  before_doorbell_record();
  record_store(q.record, be32{q.pi & 0xffff});
}

// What a CQE says in ol_flags. A hash of 0 means none, as in DPDK's mlx5 driver, rxq_cq_to_mbuf().
[[gnu::always_inline]] inline uint64_t flags_of(const prm::Cqe& e) noexcept {
  const uint32_t checks = uint32_t{e.hds_ip_ext} << burst::checksum_shift & burst::checksum_flags;
  return checks | (e.rx_hash_result.raw() != 0 ? burst::hash_flag : 0u);
}

// Marks of rules are one more than rte_flow's, since a frame without a mark has 0. The largest one
// is the action `flag`, which has no number (DPDK 22.11 drivers/net/mlx5/mlx5_defs.h,
// MLX5_FLOW_MARK_DEFAULT).
inline constexpr uint32_t flag_mark = 0xffffff;
// clang-tidy does not see that vectors have written ol_flags.
// NOLINTBEGIN(clang-analyzer-core.uninitialized.Assign)
[[gnu::noinline]] inline void write_extra(const MbufRx& q, rte_mbuf& m,
                                          const prm::Cqe& e) noexcept {
  m.vlan_tci = e.vlan_info.host();
  if ((e.l4_hdr_type_etc & prm::cqe::vlan_stripped) != 0) m.ol_flags |= burst::vlan_flags;
  if (const uint32_t mark = e.sop_drop_qpn.host() & 0xffffff; mark != 0) {
    m.hash.fdir.hi = mark - 1;
    m.ol_flags |= RTE_MBUF_F_RX_FDIR | (mark != flag_mark ? RTE_MBUF_F_RX_FDIR_ID : 0);
  }
  if ((e.outer_l3_tunneled & prm::cqe::tunneled) != 0)
    m.packet_type =
        burst::tunnel_types[burst::tunnel_place(e.outer_l3_tunneled, e.l4_hdr_type_etc)];
  if (q.stamp_offset < 0) return;
  *RTE_MBUF_DYNFIELD(&m, q.stamp_offset, rte_mbuf_timestamp_t*) = e.timestamp.host();
  m.ol_flags |= q.stamp_flag;
}
// NOLINTEND(clang-analyzer-core.uninitialized.Assign)

// What every mbuf of a queue begins with. A copy, which stays in registers.
struct Fresh {
  uint64_t rearm, flags;
};

#if defined(__SSE4_1__)
// Type, both lengths, no tag, hash. Three loads of the CQE, two unpacks and a shuffle make 16 bytes
// of it.
[[gnu::always_inline]] inline __m128i line_of(const prm::Cqe& e) noexcept {
  static_assert(offsetof(rte_mbuf, pkt_len) == offsetof(rte_mbuf, packet_type) + 4 &&
                offsetof(rte_mbuf, data_len) == offsetof(rte_mbuf, packet_type) + 8 &&
                offsetof(rte_mbuf, hash) == offsetof(rte_mbuf, packet_type) + 12);
  const auto* words = reinterpret_cast<const __m128i*>(&e);
  const __m128i order = _mm_setr_epi8(-1, -1, -1, -1, 7, 6, -1, -1, 7, 6, -1, -1, 15, 14, 13, 12);
  const __m128i info_length =
      _mm_unpackhi_epi32(_mm_load_si128(words + 1), _mm_load_si128(words + 2));
  const __m128i all = _mm_unpackhi_epi64(info_length, _mm_load_si128(words));
  const uint32_t type = burst::packet_types[e.l4_hdr_type_etc];
  return _mm_insert_epi32(_mm_shuffle_epi8(all, order), static_cast<int>(type), 0);
}
#endif

// The words of an mbuf that a receive changes: reset, flags, type, lengths, hash.
template <bool extra>
[[gnu::always_inline]] inline uint32_t write_mbuf(const MbufRx& q, Fresh fresh, rte_mbuf& m,
                                                  const prm::Cqe& e) noexcept {
#if defined(__SSE4_1__)
  static_assert(offsetof(rte_mbuf, ol_flags) == offsetof(rte_mbuf, rearm_data) + 8);
  const __m128i line = line_of(e);
  const __m128i reset = _mm_insert_epi64(_mm_cvtsi64_si128(static_cast<long long>(fresh.rearm)),
                                         static_cast<long long>(flags_of(e) | fresh.flags), 1);
  _mm_store_si128(reinterpret_cast<__m128i*>(&m.rearm_data), reset);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&m.packet_type), line);
  const auto length = static_cast<uint32_t>(_mm_extract_epi32(line, 1));
#else
  std::memcpy(&m.rearm_data, &fresh.rearm, sizeof fresh.rearm);
  const uint32_t length = e.byte_cnt.host();
  m.ol_flags = flags_of(e) | fresh.flags;
  m.packet_type = burst::packet_types[e.l4_hdr_type_etc];
  m.pkt_len = length;
  m.data_len = static_cast<uint16_t>(length);
  m.vlan_tci = 0;
  m.hash.rss = e.rx_hash_result.host();
#endif
  if constexpr (extra) write_extra(q, m, e);
  return length;
}

// A packet of several TCP segments, whose headers lie in its first mbuf, becomes one of its own.
[[gnu::noinline]] inline void end_joined(const MbufRx& q, rte_mbuf& m, const prm::Cqe& e) noexcept {
  q.counts->joined.add(prm::cqe::lro_num_seg::get(e) - 1);
  const burst::JoinedFrame f =
      burst::mend_joined({rte_pktmbuf_mtod(&m, std::byte*), m.data_len}, m.pkt_len, e);
  if (f.mss == 0) return;
  m.ol_flags |= RTE_MBUF_F_RX_LRO;
  m.tso_segsz = f.mss;
}

}  // namespace kilim::net
