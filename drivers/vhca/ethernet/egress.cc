// SPDX-License-Identifier: BSD-3-Clause
// PRM: "NIC Transmit Flow Table", "Packet Reformat". Rules of what raw packet queues send: they
// drop a frame, change its headers, put others in front of it, or hand it on to further tables.
// Adapter's lock held. Never allocates.
#include <algorithm>

#include "vhca/ethernet/frame_out.hh"
#include "vhca/ethernet/rewrite.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/wire/packet.hh"

namespace kilim::vhca::ethernet {

// Lengths and IPv4's sum are the device's to write (rdma-core tests/test_mlx5_flow.py,
// test_tx_packet_reformat(); DPDK mlx5_flow_dv.c, flow_dv_convert_encap_data(), which leaves them
// 0). `head`: bytes of the headers in front.
void finish_headers(std::span<std::byte> frame, std::size_t head) noexcept {
  constexpr uint8_t carries_udp = 17;
  const wire::PacketView where = wire::parse_packet(frame.first(head));
  const std::size_t bytes = frame.size() - where.l3_at;
  if (where.ether_type == 0x0800 && head >= where.l3_at + 20)
    wire::put_be<uint16_t>(frame, where.l3_at + 2, static_cast<uint16_t>(bytes));
  if (where.ether_type == 0x86dd && head >= where.l3_at + 40)
    wire::put_be<uint16_t>(frame, where.l3_at + 4, static_cast<uint16_t>(bytes - 40));
  const wire::PacketView v = wire::parse_packet(frame);
  if (v.l3 != wire::L3::none && v.protocol == carries_udp && v.l4_at + 8 <= head)
    wire::put_be<uint16_t>(frame, v.l4_at + 4, static_cast<uint16_t>(frame.size() - v.l4_at));
  wire::write_l3_checksum(frame, v);
}

namespace {

// A copy with what a rule puts in front of it, its headers changed first (rdma-core v44
// providers/mlx5/dr_ste_v0.c, dr_ste_v0_set_actions_tx()).
std::span<const std::byte> change_frame(EthState& eth, const Steering& rules,
                                        std::span<const std::byte> frame) noexcept {
  const Prepend* p = rules.prepend();
  const std::size_t head = p != nullptr ? p->count : 0;
  const auto out = std::span(eth.wrapped).first(head + frame.size());
  std::copy(frame.begin(), frame.end(), out.begin() + static_cast<long>(head));
  SteeringRegisters registers;
  if (rules.rewrite() != nullptr)
    rewrite_frame(rules.rewrite()->actions, out.subspan(head), registers);
  if (p == nullptr) return out;
  std::copy_n(p->bytes.begin(), head, out.begin());
  finish_headers(out, head);
  return out;
}

// What tables beyond the port's own make of it.
std::span<const std::byte> leave_by_tables(SoftSteering& soft, const wq::Qp& from, FlowTarget to,
                                           std::span<const std::byte> frame) noexcept {
  const std::span<const Arrival> ends = soft.walk(*to.qp->table, to, from.qpn.value(), frame);
  if (ends.empty()) soft.count(true);
  return ends.empty() ? std::span<const std::byte>{} : ends[0].frame;
}

}  // namespace

std::span<const std::byte> eth_leave(EthState& eth, EthPort& port, const wq::Qp& from,
                                     std::span<const std::byte> frame) noexcept {
  const std::span<const FlowTarget> to = port.egress.match(frame);
  if (eth.soft) eth.soft->begin(true);
  if (port.egress.dropped()) {
    port.egress.count_hits(frame.size());
    return {};
  }
  if (port.egress.prepend() != nullptr || port.egress.rewrite() != nullptr)
    frame = change_frame(eth, port.egress, frame);
  if (to.empty() || to[0].qp->table == nullptr) return frame;
  return leave_by_tables(*eth.soft, from, to[0], frame);
}

}  // namespace kilim::vhca::ethernet
