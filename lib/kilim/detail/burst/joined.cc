// SPDX-License-Identifier: BSD-3-Clause
// What a completion says of a joined frame is in no public manual: DPDK drivers/net/mlx5/mlx5_rx.c,
// mlx5_lro_update_hdr() and mlx5_lro_update_tcp_hdr().
#include "kilim/detail/burst/joined.hh"

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_tcp.h>

namespace kilim::inline v1::burst {
namespace {

using Head = std::span<std::byte>;

// A header at `at`; null: it is cut off.
template <typename Header>
Header* header_at(Head head, uint32_t at) noexcept {
  return head.size() < at + sizeof(Header) ? nullptr : reinterpret_cast<Header*>(head.data() + at);
}

struct Layer3 {
  uint32_t at = 0;
  uint16_t type = 0;  // RTE_ETHER_TYPE_*, in the frame's byte order
};

// Behind the tags of VLANs, two at most.
Layer3 find_layer3(Head head) noexcept {
  const auto* const ether = header_at<rte_ether_hdr>(head, 0);
  if (ether == nullptr) return {};
  Layer3 l{sizeof(rte_ether_hdr), ether->ether_type};
  for (int tags = 0; tags < 2; tags++) {
    if (l.type != RTE_BE16(RTE_ETHER_TYPE_VLAN) && l.type != RTE_BE16(RTE_ETHER_TYPE_QINQ)) break;
    const auto* const tag = header_at<rte_vlan_hdr>(head, l.at);
    if (tag == nullptr) return {};
    l = {l.at + static_cast<uint32_t>(sizeof(rte_vlan_hdr)), tag->eth_proto};
  }
  return l;
}

rte_tcp_hdr* find_tcp(Head head, uint32_t at) noexcept {
  auto* const tcp = header_at<rte_tcp_hdr>(head, at);
  if (tcp == nullptr) return nullptr;
  const uint32_t bytes = (tcp->data_off >> 4) * 4u;
  return bytes < sizeof(rte_tcp_hdr) || head.size() < at + bytes ? nullptr : tcp;
}

// The place of TCP's header, and the sum of the pseudo header.
struct Layer4 {
  rte_tcp_hdr* tcp = nullptr;  // null: there is none
  uint32_t at = 0;
  uint32_t pseudo_sum = 0;
};

Layer4 mend_ipv4(Head head, uint32_t at, uint32_t length, const prm::Cqe& e) noexcept {
  auto* const ip = header_at<rte_ipv4_hdr>(head, at);
  if (ip == nullptr || ip->next_proto_id != IPPROTO_TCP) return {};
  const uint32_t bytes = rte_ipv4_hdr_len(ip);
  rte_tcp_hdr* const tcp = bytes < sizeof(rte_ipv4_hdr) ? nullptr : find_tcp(head, at + bytes);
  if (tcp == nullptr) return {};
  ip->time_to_live = e.lro_min_ttl;
  ip->total_length = rte_cpu_to_be_16(static_cast<uint16_t>(length - at));
  ip->hdr_checksum = 0;
  ip->hdr_checksum = rte_ipv4_cksum(ip);
  return {tcp, at + bytes, rte_ipv4_phdr_cksum(ip, 0)};
}

Layer4 mend_ipv6(Head head, uint32_t at, uint32_t length, const prm::Cqe& e) noexcept {
  constexpr uint32_t bytes = sizeof(rte_ipv6_hdr);
  auto* const ip = header_at<rte_ipv6_hdr>(head, at);
  if (ip == nullptr || ip->proto != IPPROTO_TCP) return {};
  rte_tcp_hdr* const tcp = find_tcp(head, at + bytes);
  if (tcp == nullptr) return {};
  ip->hop_limits = e.lro_min_ttl;
  ip->payload_len = rte_cpu_to_be_16(static_cast<uint16_t>(length - at - bytes));
  return {tcp, at + bytes, rte_ipv6_phdr_cksum(ip, 0)};
}

bool has_ack(const prm::Cqe& e) noexcept {
  const uint32_t type = e.l4_hdr_type_etc >> prm::cqe::l4_type_shift & 7;
  return type == prm::cqe::l4_tcp_empty_ack || type == prm::cqe::l4_tcp_ack;
}

// The device sums the payload.
void mend_tcp(const Layer4& l, const prm::Cqe& e) noexcept {
  rte_tcp_hdr& tcp = *l.tcp;
  if (has_ack(e)) {
    tcp.tcp_flags |= RTE_TCP_ACK_FLAG;
    tcp.recv_ack = e.lro_ack_seq_num.raw();
    tcp.rx_win = e.lro_tcp_win.raw();
  }
  if ((e.lro_tcppsh_abort_dupack & prm::cqe::lro_push) != 0) tcp.tcp_flags |= RTE_TCP_PSH_FLAG;
  tcp.cksum = 0;
  uint32_t sum = l.pseudo_sum + e.checksum.raw() + rte_raw_cksum(&tcp, (tcp.data_off >> 4) * 4u);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  tcp.cksum = static_cast<uint16_t>(~sum);
}

}  // namespace

JoinedFrame mend_joined(Head head, uint32_t length, const prm::Cqe& e) noexcept {
  constexpr uint32_t longest = RTE_IPV4_MAX_PKT_LEN;
  const Layer3 l3 = find_layer3(head);
  if (l3.type == 0 || length < head.size() || length - l3.at > longest) return {};
  Layer4 l4;
  if (l3.type == RTE_BE16(RTE_ETHER_TYPE_IPV4)) l4 = mend_ipv4(head, l3.at, length, e);
  if (l3.type == RTE_BE16(RTE_ETHER_TYPE_IPV6)) l4 = mend_ipv6(head, l3.at, length, e);
  if (l4.tcp == nullptr) return {};
  mend_tcp(l4, e);
  const uint32_t headers = l4.at + (l4.tcp->data_off >> 4) * 4u;
  const uint32_t segments = prm::cqe::lro_num_seg::get(e);
  return {static_cast<uint16_t>(headers),
          static_cast<uint16_t>((length - headers + segments - 1) / segments)};
}

}  // namespace kilim::inline v1::burst
