// SPDX-License-Identifier: BSD-3-Clause
// Headers of tunnels. Pure, any thread; never reads behind the packet.
#include "vhca/wire/tunnel.hh"

namespace kilim::vhca::wire {

namespace {

constexpr uint8_t protocol_gre = 47;
constexpr uint32_t outer_udp_bytes = 8, vxlan_bytes = 8, vni_at = 4, gre_bytes = 4;
constexpr uint32_t geneve_bytes = 8;
constexpr uint16_t geneve_port = 6081;
constexpr uint16_t type_ether = 0x6558;  // transparent Ethernet bridging
constexpr uint16_t type_ipv4 = 0x0800, type_ipv6 = 0x86dd;
// Bits of GRE's first two bytes. Routing (RFC 1701) is not parsed, and neither are versions above
// 1: NVIDIA's own test has cards take off headers with a key and version 1 (rdma-core
// tests/utils.py, gen_gre_header(); tests/test_mlx5_dr.py, test_packet_reformat_l2_gre()), which
// RFC 2637 lays out as version 0 but for one word more. PPP in version 1 (PPTP) stays a packet like
// others.
constexpr uint16_t gre_checksum = 0x8000, gre_routing = 0x4000, gre_key = 0x2000,
                   gre_sequence = 0x1000, gre_acknowledgement = 0x0080, gre_version = 7;

void parse_inner(std::span<const std::byte> packet, TunnelView& t) noexcept {
  t.inner = t.has_ether ? parse_packet_at(packet, t.inner_at)
                        : parse_ip_at(packet, t.gre_protocol, t.inner_at);
}

void parse_vxlan(std::span<const std::byte> packet, const PacketView& outer,
                 TunnelView& t) noexcept {
  const uint32_t at = outer.l4_at + outer_udp_bytes;
  if (get_be<uint16_t>(packet, outer.l4_at + 2) != vxlan_port || at + vxlan_bytes > packet.size())
    return;
  t.kind = TunnelKind::vxlan;
  t.has_ether = true;
  t.id = get_be<uint32_t>(packet, at + vni_at) >> 8;
  t.inner_at = at + vxlan_bytes;
  parse_inner(packet, t);
}

void parse_gre(std::span<const std::byte> packet, uint32_t at, TunnelView& t) noexcept {
  if (at + gre_bytes > packet.size()) return;
  const uint16_t flags = get_be<uint16_t>(packet, at), version = flags & gre_version;
  const uint16_t protocol = get_be<uint16_t>(packet, at + 2);
  const bool known = protocol == type_ether || protocol == type_ipv4 || protocol == type_ipv6;
  if ((flags & gre_routing) != 0 || version > 1 || (version == 1 && !known)) return;
  const auto bytes_if = [flags](uint16_t bit) { return (flags & bit) != 0 ? 4u : 0u; };
  const uint32_t key_at = at + gre_bytes + bytes_if(gre_checksum);
  uint32_t end = key_at + bytes_if(gre_key) + bytes_if(gre_sequence);
  if (version == 1) end += bytes_if(gre_acknowledgement);
  if (end > packet.size()) return;
  t.kind = TunnelKind::gre;
  t.gre_flags = flags;
  t.gre_protocol = protocol;
  if ((flags & gre_key) != 0) t.id = get_be<uint32_t>(packet, key_at);
  t.has_ether = protocol == type_ether;
  t.inner_at = end;
  parse_inner(packet, t);
}

// Version 0; its options count in words of four bytes.
void parse_geneve(std::span<const std::byte> packet, const PacketView& outer,
                  TunnelView& t) noexcept {
  const uint32_t at = outer.l4_at + outer_udp_bytes;
  if (get_be<uint16_t>(packet, outer.l4_at + 2) != geneve_port || at + geneve_bytes > packet.size())
    return;
  const uint16_t first = get_be<uint16_t>(packet, at), protocol = get_be<uint16_t>(packet, at + 2);
  const uint32_t end = at + geneve_bytes + 4 * (first >> 8 & 0x3fu);
  const bool known = protocol == type_ether || protocol == type_ipv4 || protocol == type_ipv6;
  if (first >> 14 != 0 || !known || end > packet.size()) return;
  t.kind = TunnelKind::geneve;
  t.has_ether = protocol == type_ether;
  t.id = get_be<uint32_t>(packet, at + vni_at) >> 8;
  t.inner_at = end;
  t.inner = t.has_ether ? parse_packet_at(packet, end) : parse_ip_at(packet, protocol, end);
}

}  // namespace

TunnelView parse_removable(std::span<const std::byte> frame, const PacketView& outer) noexcept {
  TunnelView t = parse_tunnel(frame, outer);
  if (t.kind == TunnelKind::none && outer.l4 == L4::udp && !outer.fragment)
    parse_geneve(frame.first(outer.l3_end), outer, t);
  return t;
}

TunnelView parse_tunnel(std::span<const std::byte> frame, const PacketView& outer) noexcept {
  TunnelView t;
  if (outer.l3 == L3::none || outer.fragment) return t;
  const auto packet = frame.first(outer.l3_end);
  if (outer.l4 == L4::udp) parse_vxlan(packet, outer, t);
  if (outer.protocol == protocol_gre) parse_gre(packet, outer.l4_at, t);
  return t;
}

}  // namespace kilim::vhca::wire
