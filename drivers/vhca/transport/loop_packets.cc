// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. Never allocates.
#include "vhca/transport/loop_packets.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/opcode.hh"
#include "vhca/core/address.hh"

namespace kilim::vhca::transport {

namespace {

using roce::Op;

// Sums up how much longer the headers of all packets but the first one are.
int64_t longer_headers(roce::Service service, const RequestRow& row, uint64_t packets) noexcept {
  const auto headers = [service](Op op) {
    const uint16_t flags = roce::flags_of(service, *roce::op_row(static_cast<uint8_t>(op)));
    return static_cast<int64_t>(roce_payload_at(flags));
  };
  if (packets < 2) return 0;
  return headers(row.last) - headers(row.first) +
         static_cast<int64_t>(packets - 2) * (headers(row.middle) - headers(row.first));
}

}  // namespace

RocePath path_to(const RoceLink& link, const prm::AvSeg& to, uint32_t from_qpn) noexcept {
  RocePath path;
  path.src = link.mac;
  std::memcpy(path.dst.data(), to.rmac, path.dst.size());
  port_gid(*link.context->addresses, prm::av::gid_index::get(to), path.sgid);
  std::memcpy(path.dgid.data(), to.rgid, path.dgid.size());
  path.traffic_class = to.tclass;
  path.hop_limit = std::max<uint8_t>(to.hop_limit, 1);
  path.flow_label = prm::av::flow_label::get(to);
  path.src_port =
      to.rlid.host() != 0 ? to.rlid.host() : source_port(from_qpn, prm::av::qpn::get(to));
  return path;
}

LoopPackets loop_packets(RoceLink& link, const wq::Qp& qp, const RequestRow& row,
                         const RequestData& ask) noexcept {
  const uint32_t mtu = mtu_bytes(qp);
  const uint64_t bytes = is_answered(row.kind) ? 0 : ask.bytes;
  LoopPackets p;
  p.count = packets_of(bytes, mtu);
  RocePacket first = packet_of(qp, p.count == 1 ? row.only : row.first, 0);
  std::size_t head = 0;
  if (qp.type == QpType::dci) {
    first.dest_qpn = prm::av::qpn::get(ask.to);
    head = build_roce(path_to(link, ask.to, qp.qpn.value()), first, 0, link.frame);
  } else {
    head = build_packet(link, qp, first, 0);
  }
  if (head == 0) return {};
  p.first = {link.frame.data(), head};
  p.bytes = p.count * head + (bytes + 3) / 4 * 4 +
            static_cast<uint64_t>(longer_headers(first.service, row, p.count));
  return p;
}

LoopPackets loop_packets(RoceLink& link, const wq::Qp& qp, const wq::SendWqe& wqe,
                         const prm::AvSeg& to, uint64_t bytes) noexcept {
  const bool imm = wqe.opcode == static_cast<uint8_t>(prm::Opcode::send_imm);
  RocePacket p = packet_of(qp, imm ? Op::send_only_imm : Op::send_only, 0);
  p.dest_qpn = prm::av::qpn::get(to);
  const std::size_t head = build_roce(path_to(link, to, qp.qpn.value()), p, 0, link.frame);
  return {{link.frame.data(), head}, 1, head + (bytes + 3) / 4 * 4};
}

}  // namespace kilim::vhca::transport
