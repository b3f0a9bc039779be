// SPDX-License-Identifier: BSD-3-Clause
// Frames out, lists cut. Adapter's lock held. Never allocates.
#include "vhca/transport/roce_link.hh"

#include <algorithm>
#include <iterator>

#include "vhca/core/address.hh"
#include "vhca/transport/gsi.hh"
#include "vhca/wire/slots.hh"

namespace kilim::vhca::transport {

namespace {
// A wire that knows when it has room is asked so often while the engine runs anyhow; another is
// tried again, the second time in a row after twice as long, and so on.
constexpr uint64_t ask_ns = 5'000, shortest_pause_ns = 10'000, longest_pause_ns = 160'000;

// Where a frame to the adapter's own address goes that another process of it serves: to that one,
// and a datagram of queue pair 1 to all of them.
Mac next_hop(const RoceLink& link, const Mac& to, uint32_t qpn) noexcept {
  const bool inside = link.member_mac != Mac{} && to == link.mac && qpn != gsi_qpn;
  return inside ? wire::mac_of_slot(qpn >> member_shift) : to;
}
}  // namespace

void note_full(RoceLink& link, wire::Wire& wire) noexcept {
  const uint64_t longer = link.full_pause_ns == 0 ? shortest_pause_ns : 2 * link.full_pause_ns;
  if (link.full_until_ns == 0) link.first_has_sent = false;
  link.full = &wire;
  link.full_pause_ns = wire.tells_room() ? ask_ns : std::min(longer, longest_pause_ns);
  link.full_until_ns = link.context->now_ns + link.full_pause_ns;
}

bool send_out(RoceLink& link, wire::Wire& wire, std::span<const std::byte> frame) noexcept {
  if (link.full_until_ns != 0) return false;
  if (wire.send(frame) == wire::Wire::Sent::busy) {
    note_full(link, wire);
    return false;
  }
  link.full_pause_ns = 0;
  return true;
}

std::byte* payload_place(RoceLink& link, uint16_t flags) noexcept {
  return link.frame.data() + roce_payload_at(flags);
}

RocePacket packet_of(const wq::Qp& qp, roce::Op op, uint32_t psn) noexcept {
  RocePacket p;
  p.op = op;
  p.service = service_of(qp.type);
  p.flags = roce::flags_of(p.service, *roce::op_row(static_cast<uint8_t>(op)));
  p.psn = psn;
  p.dest_qpn = qp.attr.dest_qpn.value();
  return p;
}

uint16_t source_port(uint32_t qpn, uint32_t peer) noexcept {
  uint32_t mix = qpn * 31 ^ peer;
  return static_cast<uint16_t>(0xc000 | ((mix ^ mix >> 14) & 0x3fff));
}

bool send_along(RoceLink& link, wire::Wire& wire, const RocePath& path, const RocePacket& packet,
                std::size_t bytes) noexcept {
  if (link.full_until_ns != 0) return false;
  RocePath way = path;
  way.dst = next_hop(link, path.dst, packet.dest_qpn);
  std::size_t length = build_roce(way, packet, bytes, link.frame);
  return send_out(link, wire, {link.frame.data(), length});
}

std::size_t build_packet(RoceLink& link, const wq::Qp& qp, const RocePacket& packet,
                         std::size_t bytes) noexcept {
  RocePath path;
  path.src = link.mac;
  const QpAttr::Path& way = qp.attr.path;
  if (!mac_of_gid(way.dgid, path.dst)) path.dst = way.dmac;
  if (path.dst == Mac{} || way.sgid_index >= link.gids.size()) return 0;
  path.dst = next_hop(link, path.dst, packet.dest_qpn);
  path.sgid = link.gids[way.sgid_index];
  path.dgid = way.dgid;
  path.traffic_class = way.traffic_class;
  path.hop_limit = std::max<uint8_t>(way.hop_limit, 1);
  path.flow_label = way.flow_label;
  path.src_port =
      way.udp_sport != 0 ? way.udp_sport : source_port(qp.qpn.value(), qp.attr.dest_qpn.value());
  return build_roce(path, packet, bytes, link.frame);
}

bool send_packet(RoceLink& link, const wq::Qp& qp, const RocePacket& packet,
                 std::size_t bytes) noexcept {
  wire::Wire* wire = link.wire_of(qp);
  if (wire == nullptr) return true;
  if (link.full_until_ns != 0) return false;
  std::size_t length = build_packet(link, qp, packet, bytes);
  return length == 0 || send_out(link, *wire, {link.frame.data(), length});
}

bool cut_list(std::span<const tpt::Segment> list, uint64_t skip, uint64_t bytes,
              SubList& out) noexcept {
  out.count = 0;
  for (const tpt::Segment& s : list) {
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

}  // namespace kilim::vhca::transport
