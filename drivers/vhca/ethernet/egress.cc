// SPDX-License-Identifier: BSD-3-Clause
// PRM: "NIC Transmit Flow Table", "Packet Reformat". Rules of what raw packet queues send: they
// drop a frame or put headers in front of it. Adapter's lock held. Never allocates.
#include <algorithm>

#include "vhca/ethernet/frame_out.hh"
#include "vhca/wire/packet.hh"

namespace kilim::vhca {

namespace {

// Lengths and IPv4's sum are the device's to write (rdma-core tests/test_mlx5_flow.py,
// test_tx_packet_reformat(); DPDK mlx5_flow_dv.c, flow_dv_convert_encap_data(), which leaves them
// 0). `head`: bytes of the headers in front.
void finish_headers(std::span<std::byte> frame, std::size_t head) noexcept {
  constexpr uint8_t carries_udp = 17;
  const PacketView where = parse_packet(frame.first(head));
  const std::size_t bytes = frame.size() - where.l3_at;
  if (where.ether_type == 0x0800 && head >= where.l3_at + 20)
    put_be<uint16_t>(frame, where.l3_at + 2, static_cast<uint16_t>(bytes));
  if (where.ether_type == 0x86dd && head >= where.l3_at + 40)
    put_be<uint16_t>(frame, where.l3_at + 4, static_cast<uint16_t>(bytes - 40));
  const PacketView v = parse_packet(frame);
  if (v.l3 != L3::none && v.protocol == carries_udp && v.l4_at + 8 <= head)
    put_be<uint16_t>(frame, v.l4_at + 4, static_cast<uint16_t>(frame.size() - v.l4_at));
  write_l3_checksum(frame, v);
}

}  // namespace

std::span<const std::byte> eth_leave(EthState& eth, EthPort& port,
                                     std::span<const std::byte> frame) noexcept {
  (void)port.egress.match(frame);
  if (port.egress.dropped()) {
    port.egress.count_hits(frame.size());
    return {};
  }
  const Prepend* p = port.egress.prepend();
  if (p == nullptr) return frame;
  const auto out = std::span(eth.wrapped).first(p->count + frame.size());
  std::copy_n(p->bytes.begin(), p->count, out.begin());
  std::copy(frame.begin(), frame.end(), out.begin() + p->count);
  finish_headers(out, p->count);
  return out;
}

}  // namespace kilim::vhca
