// SPDX-License-Identifier: BSD-3-Clause
// What a CQE says about a packet in the words of DPDK's rte_mbuf: packet type by table, flags.
// Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>

#include <rte_mbuf_core.h>
#include <rte_mbuf_ptype.h>

#include "kilim/detail/burst/config.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::inline v1::burst {

namespace detail {

constexpr uint32_t l4_type(uint8_t l4_hdr_type_etc) noexcept {
  if ((l4_hdr_type_etc & prm::cqe::ip_fragment) != 0) return RTE_PTYPE_L4_FRAG;
  switch (l4_hdr_type_etc >> prm::cqe::l4_type_shift & 7) {
    case prm::cqe::l4_none:
      return RTE_PTYPE_L4_NONFRAG;
    case prm::cqe::l4_udp:
      return RTE_PTYPE_L4_UDP;
    case prm::cqe::l4_tcp:
    case prm::cqe::l4_tcp_empty_ack:
    case prm::cqe::l4_tcp_ack:
      return RTE_PTYPE_L4_TCP;
    default:
      return 0;
  }
}

// Returns the types of DPDK's mlx5 driver, mlx5_set_ptype_table(): a device does not tell options
// and extension headers apart from none.
constexpr uint32_t packet_type(uint8_t l4_hdr_type_etc) noexcept {
  switch (l4_hdr_type_etc >> prm::cqe::l3_type_shift & 3) {
    case prm::cqe::l3_ipv4:
      return RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN | l4_type(l4_hdr_type_etc);
    case prm::cqe::l3_ipv6:
      return RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV6_EXT_UNKNOWN | l4_type(l4_hdr_type_etc);
    default:
      return RTE_PTYPE_L2_ETHER;
  }
}

constexpr std::array<uint32_t, 256> make_packet_types() noexcept {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); i++) table[i] = packet_type(static_cast<uint8_t>(i));
  return table;
}

// Returns the type of a packet in a tunnel: inner headers by l4_hdr_type_etc, outer ones by
// outer_l3_tunneled. DPDK's driver knows no more of the outer headers either
// (mlx5_set_ptype_table(), "Tunneled").
constexpr uint32_t tunnel_type(uint8_t l4_hdr_type_etc, bool outer_ipv6) noexcept {
  const uint32_t outer = RTE_PTYPE_L2_ETHER | (outer_ipv6 ? RTE_PTYPE_L3_IPV6_EXT_UNKNOWN
                                                          : RTE_PTYPE_L3_IPV4_EXT_UNKNOWN);
  const uint32_t l3 = l4_hdr_type_etc >> prm::cqe::l3_type_shift & 3;
  if (l3 != prm::cqe::l3_ipv4 && l3 != prm::cqe::l3_ipv6) return outer;
  const uint32_t inner = l3 == prm::cqe::l3_ipv4 ? RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN
                                                 : RTE_PTYPE_INNER_L3_IPV6_EXT_UNKNOWN;
  switch (l4_type(l4_hdr_type_etc)) {
    case RTE_PTYPE_L4_FRAG:
      return outer | inner | RTE_PTYPE_INNER_L4_FRAG;
    case RTE_PTYPE_L4_NONFRAG:
      return outer | inner | RTE_PTYPE_INNER_L4_NONFRAG;
    case RTE_PTYPE_L4_UDP:
      return outer | inner | RTE_PTYPE_INNER_L4_UDP;
    case RTE_PTYPE_L4_TCP:
      return outer | inner | RTE_PTYPE_INNER_L4_TCP;
    default:
      return outer | inner;
  }
}

constexpr std::array<uint32_t, 256> make_tunnel_types() noexcept {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); i++) {
    const auto type = static_cast<uint8_t>(i << 2);
    const bool in_tunnel = (i >> 6 & prm::cqe::tunneled) != 0;
    table[i] =
        in_tunnel ? tunnel_type(type, (i >> 6 & prm::cqe::outer_ipv6) != 0) : packet_type(type);
  }
  return table;
}

}  // namespace detail

// The place in a table of types with tunnels: l4_hdr_type_etc without its lowest two bits, which no
// type depends on, then those of outer_l3_tunneled.
constexpr uint32_t tunnel_place(uint8_t outer_l3_tunneled, uint8_t l4_hdr_type_etc) noexcept {
  constexpr uint32_t both = prm::cqe::tunneled | prm::cqe::outer_ipv6;
  return (outer_l3_tunneled & both) << 6 | uint32_t{l4_hdr_type_etc} >> 2;
}

// RTE_PTYPE_* by a CQE's l4_hdr_type_etc.
inline constexpr std::array<uint32_t, 256> packet_types = detail::make_packet_types();
// RTE_PTYPE_* by tunnel_place(), for queues whose device tells of tunnels.
inline constexpr std::array<uint32_t, 256> tunnel_types = detail::make_tunnel_types();
static_assert([] {
  for (uint32_t i = 0; i < packet_types.size(); i++)
    if (tunnel_types[tunnel_place(0, static_cast<uint8_t>(i))] != packet_types[i]) return false;
  return true;
}());

// The table in which bursts of this configuration look up a packet's type, and the place in it.
template <RxConfig C>
constexpr const uint32_t* type_table() noexcept {
  return C.tunnel ? tunnel_types.data() : packet_types.data();
}
template <RxConfig C>
constexpr uint32_t type_place(const prm::Cqe& e) noexcept {
  if constexpr (C.tunnel) return tunnel_place(e.outer_l3_tunneled, e.l4_hdr_type_etc);
  return e.l4_hdr_type_etc;
}
template <RxConfig C>
constexpr uint32_t type_of(const prm::Cqe& e) noexcept {
  return type_table<C>()[type_place<C>(e)];
}

// Bits of hds_ip_ext become RTE_MBUF_F_RX_*_CKSUM_GOOD by one shift to the left. A device does not
// tell a wrong checksum from one that it did not look at, so neither flag says BAD.
inline constexpr uint32_t checksum_shift = 6;
inline constexpr uint32_t checksum_flags =
    RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
static_assert(prm::cqe::l3_ok << checksum_shift == RTE_MBUF_F_RX_IP_CKSUM_GOOD &&
              prm::cqe::l4_ok << checksum_shift == RTE_MBUF_F_RX_L4_CKSUM_GOOD);
inline constexpr uint32_t hash_flag = RTE_MBUF_F_RX_RSS_HASH;
inline constexpr uint32_t vlan_flags = RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
inline constexpr uint32_t mark_flags = RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;

// The tag of the flow rule that led a frame here; 0: none (DPDK drivers/net/mlx5/mlx5_rx.c,
// rxq_cq_to_mbuf(), MLX5_FLOW_MARK_IS_VALID).
inline uint32_t flow_tag(const prm::Cqe& e) noexcept {
  return e.sop_drop_qpn.host() & 0xffffff;
}

// The side record of a packet. A hash of 0 means none, as in DPDK's mlx5 driver, rxq_cq_to_mbuf().
template <RxConfig C>
void write_side(pool::SideRecord& r, const prm::Cqe& e) noexcept {
  r.rx_hash = e.rx_hash_result.host();
  r.packet_type = type_of<C>(e);
  r.flags = (uint32_t{e.hds_ip_ext} << checksum_shift & checksum_flags) |
            (r.rx_hash != 0 ? hash_flag : 0u);
  r.vlan = 0;
  r.mark_low = 0;
  if constexpr (C.vlan) {
    r.vlan = e.vlan_info.host();
    if ((e.l4_hdr_type_etc & prm::cqe::vlan_stripped) != 0) r.flags |= vlan_flags;
  }
  if constexpr (C.mark) {
    const uint32_t mark = flow_tag(e);
    if (mark != 0) r.flags |= mark_flags | mark >> 16 << 24;
    r.mark_low = static_cast<uint16_t>(mark);
  }
  if constexpr (C.timestamp) r.timestamp = e.timestamp.host();
}

}  // namespace kilim::inline v1::burst
