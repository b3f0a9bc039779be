// SPDX-License-Identifier: BSD-3-Clause
// What an mbuf asks of a transmit queue, in the words of a WQE, and whether it can be sent: a frame
// that the device would answer with an error is refused here, as that error would take the frames
// around it along. Shared by the burst and by rte_eth_tx_prepare(). Owner: the queue's lcore. Never
// allocates, blocks or logs.
#pragma once

#include <cstdint>

#include <rte_mbuf.h>

#include "kilim/detail/queue/eth_packet.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "net/kilim/mbuf_tx.hh"

namespace kilim::net {

struct TxRequest {
  queue::EthHead head;
  uint32_t inlined = 0;  // bytes of the frame's start that lie in the WQE
};

inline constexpr uint32_t tagged_header = queue::ether_header_bytes + queue::vlan_tag_bytes;

// Lengths of a chain say the same: the sum of its mbufs is the packet's, and there are as many.
[[nodiscard]] inline bool is_whole(const rte_mbuf& packet) noexcept {
  uint32_t bytes = 0, count = 0;
  for (const rte_mbuf* m = &packet; m != nullptr; m = m->next, count++) bytes += m->data_len;
  return bytes == packet.pkt_len && count == packet.nb_segs;
}

// True: the packet begins with Ethernet, up to two tags, IPv4 or IPv6 and TCP, which end behind
// `bytes` bytes. A device cuts only such a packet into segments.
[[nodiscard]] bool begins_with_tcp(const rte_mbuf& packet, uint32_t bytes) noexcept;

// Headers that are all inlined, and what each segment's frame is as long as.
[[nodiscard]] inline bool read_tso(const MbufTx& q, const rte_mbuf& m, TxRequest& r) noexcept {
  r.head.checksums |= queue::EthOffload::l3 | queue::EthOffload::l4;
  r.head.mss = m.tso_segsz;
  r.inlined = static_cast<uint32_t>(m.l2_len + m.l3_len + m.l4_len);
  if (r.head.mss == 0 || r.inlined >= m.pkt_len) return false;
  const uint32_t payload = m.pkt_len - r.inlined;
  const uint32_t longest = payload < r.head.mss ? payload : r.head.mss;
  const uint32_t tag = r.head.tag != 0 ? queue::vlan_tag_bytes : 0;
  return payload <= q.max_tso && r.inlined + tag + longest <= longest_frame(q) &&
         begins_with_tcp(m, r.inlined);
}

// False: this queue's device cannot, or the packet is none.
[[nodiscard]] inline bool read_request(const MbufTx& q, const rte_mbuf& m, TxRequest& r) noexcept {
  const uint64_t flags = m.ol_flags;
  if (m.pkt_len < queue::ether_header_bytes || !is_whole(m)) return false;
  if ((flags & (RTE_MBUF_F_TX_VLAN)) != 0) r.head.tag = queue::customer_tag(m.vlan_tci);
  if ((flags & RTE_MBUF_F_TX_IP_CKSUM) != 0) r.head.checksums |= queue::EthOffload::l3;
  const uint64_t l4 = flags & RTE_MBUF_F_TX_L4_MASK;
  if (l4 == RTE_MBUF_F_TX_TCP_CKSUM || l4 == RTE_MBUF_F_TX_UDP_CKSUM)
    r.head.checksums |= queue::EthOffload::l4;
  r.inlined = q.min_inline;
  if ((flags & RTE_MBUF_F_TX_TCP_SEG) != 0) {
    if (!read_tso(q, m, r)) return false;
  } else {
    if (m.pkt_len + (r.head.tag != 0 ? queue::vlan_tag_bytes : 0) > longest_frame(q)) return false;
    if (r.head.tag != 0 && (r.inlined != 0 || !q.tags))
      r.inlined = (r.inlined < tagged_header ? tagged_header : r.inlined) - queue::vlan_tag_bytes;
    if (r.inlined > m.pkt_len || m.pkt_len <= q.max_inline) r.inlined = m.pkt_len;
  }
  return (q.checksums || r.head.checksums == 0) &&
         r.inlined <= queue::max_inlined - queue::vlan_tag_bytes;
}

}  // namespace kilim::net
