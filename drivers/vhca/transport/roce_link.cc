// SPDX-License-Identifier: BSD-3-Clause
// Frames out, lists cut. Adapter's lock held. Never allocates.
#include "vhca/transport/roce_link.hh"

#include <algorithm>
#include <iterator>

#include "vhca/hca/modify_qp.hh"

namespace kilim::vhca {

std::byte* payload_place(RoceLink& link, uint16_t flags) noexcept {
  return link.frame.data() + roce_payload_at(flags);
}

bool send_packet(RoceLink& link, const Qp& qp, RocePacket& packet, std::size_t bytes) noexcept {
  Wire* wire = link.wire_of(qp);
  RocePath path;
  path.src = link.mac;
  if (wire == nullptr || !mac_of_gid(qp.attr.path.dgid, path.dst)) return true;
  port_gid(link.mac, qp.attr.path.sgid_index, path.sgid);
  path.dgid = qp.attr.path.dgid;
  path.traffic_class = qp.attr.path.traffic_class;
  path.hop_limit = std::max<uint8_t>(qp.attr.path.hop_limit, 1);
  path.flow_label = qp.attr.path.flow_label;
  uint32_t mix = qp.qpn.value() * 31 ^ qp.attr.dest_qpn.value();
  path.src_port = static_cast<uint16_t>(0xc000 | ((mix ^ mix >> 14) & 0x3fff));
  packet.dest_qpn = qp.attr.dest_qpn.value();
  std::size_t length = build_roce(path, packet, bytes, link.frame);
  return wire->send({link.frame.data(), length}) != Wire::Sent::busy;
}

bool cut_list(std::span<const Segment> list, uint64_t skip, uint64_t bytes, SubList& out) noexcept {
  out.count = 0;
  for (const Segment& s : list) {
    if (bytes == 0) break;
    if (skip >= s.bytes) {
      skip -= s.bytes;
      continue;
    }
    if (out.count == std::size(out.segments)) return false;
    uint64_t n = std::min(bytes, s.bytes - skip);
    out.segments[out.count++] = {s.addr + skip, n, s.key, s.immediate};
    skip = 0;
    bytes -= n;
  }
  return bytes == 0;
}

}  // namespace kilim::vhca
