// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Ethernet Segment", its software parser. Places count from the frame as it leaves, a tag
// that the device puts in included (DPDK mlx5_tx.h, txq_mbuf_to_swp()). Pure, any thread.
#include "vhca/ethernet/layers.hh"

#include "kilim/prm/eth_seg.hh"
#include "vhca/wire/tunnel.hh"

namespace kilim::vhca::ethernet {

namespace {

constexpr uint16_t said_ipv4 = 0x0800, said_ipv6 = 0x86dd;
constexpr uint8_t said_tcp = 6, said_udp = 17;

// An IP header at `l3`; what it carries is at `l4`, if that is said.
wire::PacketView parse_said(std::span<const std::byte> frame, uint32_t l3, uint32_t l4, bool six,
                            bool is_udp) noexcept {
  wire::PacketView v = wire::parse_ip_at(frame, six ? said_ipv6 : said_ipv4, l3);
  if (v.l3 == wire::L3::none || l4 == 0) return v;
  // The place that is said must be that of such a header, or the sum would lie outside of it.
  const bool there = v.l4_at == l4 && v.protocol == (is_udp ? said_udp : said_tcp);
  if (!there) v.l4 = wire::L4::none;
  return v;
}

}  // namespace

wire::PacketView find_outer(std::span<const std::byte> frame, EthAsk ask) noexcept {
  const wire::PacketView v = wire::parse_packet(frame);
  const uint32_t l3 = ask.place(offsetof(prm::EthSeg, swp_outer_l3));
  if (v.l3 != wire::L3::none || l3 == 0) return v;
  const uint8_t f = ask.parser_flags();
  return parse_said(frame, l3, ask.place(offsetof(prm::EthSeg, swp_outer_l4)),
                    (f & prm::eth::swp_outer_ipv6) != 0, (f & prm::eth::swp_outer_udp) != 0);
}

wire::PacketView find_inner(std::span<const std::byte> frame, const wire::PacketView& outer,
                            EthAsk ask) noexcept {
  const wire::TunnelView t = wire::parse_tunnel(frame, outer);
  const uint32_t l3 = ask.place(offsetof(prm::EthSeg, swp_inner_l3));
  if (t.inner.l3 != wire::L3::none || l3 == 0) return t.inner;
  const uint8_t f = ask.parser_flags();
  return parse_said(frame, l3, ask.place(offsetof(prm::EthSeg, swp_inner_l4)),
                    (f & prm::eth::swp_inner_ipv6) != 0, (f & prm::eth::swp_inner_udp) != 0);
}

}  // namespace kilim::vhca::ethernet
