// SPDX-License-Identifier: BSD-3-Clause
// The engine's side of the protocols. Adapter's lock held.
#include "vhca/transport/roce_port.hh"

#include <algorithm>
#include <cstring>
#include <utility>

#include "vhca/core/address.hh"
#include "vhca/core/journal.hh"
#include "vhca/transport/completer_wire.hh"
#include "vhca/transport/datagram.hh"
#include "vhca/transport/dynamic.hh"
#include "vhca/transport/last_ack.hh"
#include "vhca/transport/requester_wire.hh"
#include "vhca/transport/responder_wire.hh"
#include "vhca/transport/weak_wire.hh"
#include "vhca/wire/packet.hh"
#include "vhca/wire/slots.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::transport {

namespace {

constexpr uint32_t longest_payload = 4096;
constexpr uint64_t owed_look_ns = 10'000;
constexpr std::size_t answers_a_turn = 256;
constexpr std::size_t most_partings = 256;  // of queues destroyed at about the same time

bool for_us(const RoceLink& link, std::span<const std::byte> frame) noexcept {
  if (frame.size() < 6) return false;
  if (std::memcmp(frame.data(), link.mac.data(), 6) == 0) return true;
  return link.member_mac != Mac{} && std::memcmp(frame.data(), link.member_mac.data(), 6) == 0;
}
// To the interface that is the wire: what no queue of ours takes is its kernel's.
bool for_station(const RoceLink& link, uint32_t port, std::span<const std::byte> frame) noexcept {
  const Mac station = port <= link.stations.size() ? link.stations[port - 1] : Mac{};
  return station != Mac{} && frame.size() >= 6 && std::memcmp(frame.data(), station.data(), 6) == 0;
}
// A multicast address that either version of IP made (group_mac()).
bool for_a_group(std::span<const std::byte> frame) noexcept {
  constexpr std::byte six[] = {std::byte{0x33}, std::byte{0x33}};
  constexpr std::byte four[] = {std::byte{0x01}, std::byte{0x00}, std::byte{0x5e}};
  return frame.size() >= 6 && (std::memcmp(frame.data(), six, sizeof(six)) == 0 ||
                               std::memcmp(frame.data(), four, sizeof(four)) == 0);
}

bool is_wired(QpType type) noexcept {
  return type != QpType::ud && type != QpType::raw_packet;
}

// Whether a packet of a connection can come to this queue.
bool hears(const wq::Qp& qp, const RocePacket& p) noexcept {
  if (!qp.rc || service_of(qp.type) != p.service || p.sgid != qp.attr.path.dgid) return false;
  bool response = (p.flags & roce::flag::response) != 0;
  if (p.service == roce::Service::dc) return response && qp.rc->session != 0;
  return p.service != roce::Service::xrc || response == (qp.type == QpType::xrc_ini);
}

// False: no queue for it.
bool handle_packet(RoceLink& link, uint32_t port, const RocePacket& p) noexcept {
  if (p.service == roce::Service::ud) return handle_datagram(link, port, p);
  wq::Qp* qp = link.qps->at(p.dest_qpn);
  if (qp != nullptr && qp->type == QpType::dct) {
    if (p.service != roce::Service::dc || qp->connections.empty()) return false;
    if (wq::Qp* connection = connection_of(link, *qp, p)) handle_request(link, *connection, p);
    return true;
  }
  if (qp == nullptr || !hears(*qp, p)) return false;
  if ((p.flags & roce::flag::response) != 0)
    handle_response(link, *qp, p);
  else
    handle_request(link, *qp, p);
  wq::note_drained(*link.context, *qp);
  return true;
}

}  // namespace

uint32_t roce_mtu(uint32_t wire_mtu) noexcept {
  uint32_t mtu = longest_payload;
  while (mtu > 256 && mtu + roce_data_overhead > wire_mtu) mtu /= 2;
  return mtu;
}

void roce_open(RoceLink& link, std::vector<wire::Wire*> wires) {
  link.wires = std::move(wires);
  link.mac = link.context->addresses->mac;
  if (const auto member = link.context->addresses->member)
    link.member_mac = wire::mac_of_slot(*member);
  Gid gid;
  for (uint32_t i = 0; port_gid(*link.context->addresses, i, gid); i++) link.gids.push_back(gid);
  for (wire::Wire* wire : link.wires) {
    if (wire != nullptr) wire->publish(link.mac, link.gids);
    link.stations.push_back(wire != nullptr ? wire->station().value_or(Mac{}) : Mac{});
  }
  link.last_acks.resize(most_partings);
  link.frame.resize(longest_payload + roce_overhead);
}

void roce_enter(RoceLink& link, wq::Qp& qp, QpState from) {
  if (qp.state == QpState::reset || qp.state == QpState::init) qp.rc.reset();
  if (!is_wired(qp.type) || qp.loopback || link.wire_of(qp) == nullptr) return;
  if (qp.type == QpType::dct) {
    if (qp.state == QpState::rtr) prepare_connections(qp);
    return;
  }
  if (qp.state == QpState::rtr && from == QpState::init) {
    qp.rc = std::make_unique<wq::RcWire>();
    qp.rc->expected_psn = qp.attr.rq_psn & roce::psn_mask;
  }
  if (qp.state == QpState::rts && from == QpState::rtr && qp.rc) start_requester(qp);
  if (qp.state == QpState::rts && from == QpState::sqe && qp.rc) send_anew(qp);
}

void roce_part(RoceLink& link, wq::Qp& qp) noexcept {
  if (link.context->dead) return;
  remember_last_ack(link, qp);
  wq::flush_held(*link.context, qp);
  for (const std::unique_ptr<wq::Qp>& c : qp.connections) {
    remember_last_ack(link, *c);
    wq::flush_held(*link.context, *c);
  }
}

bool roce_owes(const RoceLink& link) noexcept {
  return !link.context->dead &&
         (link.goodbyes != 0 || (link.full != nullptr && link.full->held() != 0));
}

void roce_forget(RoceLink& link, wq::Qp& qp) noexcept {
  link.timed.remove(qp);
  link.answering.remove(qp);
  link.blocked.remove(qp);
  if (qp.rc) qp.rc->count = 0;
  for (const std::unique_ptr<wq::Qp>& c : qp.connections) roce_forget(link, *c);
}

bool roce_may_send(const wq::Qp& qp) noexcept {
  return !qp.rc->idle;
}

bool roce_hears(const RoceLink& link, uint32_t port, std::span<const std::byte> frame) noexcept {
  if (!for_a_group(frame) && !for_us(link, frame) && !for_station(link, port, frame)) return false;
  const wire::PacketView v = wire::parse_packet(frame);
  return v.l3 != wire::L3::none && v.l4 == wire::L4::udp &&
         wire::get_be<uint16_t>(frame, v.l4_at + 2) == roce::udp_port;
}

bool roce_handle_frame(RoceLink& link, uint32_t port, std::span<const std::byte> frame) noexcept {
  bool group = for_a_group(frame);
  const bool ours = group || for_us(link, frame);
  if (!ours && !for_station(link, port, frame)) return false;
  RocePacket p;
  RoceParse parsed = parse_roce(frame, p);
  if (parsed == RoceParse::not_roce) return false;
  if (group || !ours) return parsed == RoceParse::ok && handle_packet(link, port, p);
  bool bad = parsed == RoceParse::bad;
  if (bad || !handle_packet(link, port, p))
    link.context->journal->frame_drop(port, static_cast<uint32_t>(frame.size()),
                                      bad ? "a malformed RoCE packet" : "no queue for it");
  return true;
}

void roce_timers(RoceLink& link) noexcept {
  for (wq::Qp* qp = link.timed.front(); qp != nullptr;) {
    wq::Qp* next = link.timed.after(*qp);
    wq::RcWire* w = qp->rc.get();
    bool runs = qp->state == QpState::rts || qp->state == QpState::sqd;
    if (w != nullptr && runs) check_timer(link, *qp);
    runs = qp->state == QpState::rts || qp->state == QpState::sqd;
    if (w == nullptr || !runs || (w->deadline_ns == 0 && w->pause_until_ns == 0))
      link.timed.remove(*qp);
    qp = next;
  }
}

std::size_t roce_answer(RoceLink& link) noexcept {
  if (link.full_until_ns != 0) return 0;
  std::size_t done = send_last_acks(link);
  for (wq::Qp* qp = link.answering.front(); qp != nullptr && done < answers_a_turn;) {
    std::size_t sent = 0;
    bool all = !qp->rc || send_owed(link, *qp, sent);
    wq::Qp* next = link.answering.after(*qp);
    // Who sent some and has more goes behind the others.
    if (all || sent > 0) link.answering.remove(*qp);
    if (!all) link.answering.push(*qp);
    done += sent;
    qp = next;
  }
  return done;
}

namespace {

// The wire has room again: those that waited for it go on.
void end_full(RoceLink& link) noexcept {
  link.full_until_ns = 0;
  wq::Qp* last = link.first_has_sent ? link.blocked.front() : nullptr;
  if (last != nullptr) link.blocked.remove(*last);
  while (wq::Qp* qp = link.blocked.front()) {
    link.blocked.remove(*qp);
    link.ready->push(*qp);
  }
  if (last != nullptr) link.ready->push(*last);
}

}  // namespace

std::size_t roce_begin(RoceLink& link) noexcept {
  for (wire::Wire* wire : link.wires) {
    if (wire != nullptr) wire->cork(true);
  }
  if (link.full_until_ns == 0 || link.full_until_ns > link.context->now_ns) return 0;
  const std::size_t held = link.full->held();
  if (!link.full->has_room()) {
    note_full(link, *link.full);
    return held - link.full->held();
  }
  end_full(link);
  return held + 1;
}

void roce_flush(RoceLink& link, bool ends) noexcept {
  for (wire::Wire* wire : link.wires) {
    if (wire == nullptr) continue;
    if (ends) wire->cork(false);
    const std::size_t held = wire->held();
    const bool gone = wire->flush();
    if (!gone && link.full_until_ns == 0) note_full(link, *wire);
    // Room that is found here wakes nobody later: its descriptor tells of it no more.
    if (gone && held != 0 && wire == link.full && link.full_until_ns != 0) end_full(link);
  }
}

uint64_t roce_deadline(const RoceLink& link) noexcept {
  uint64_t deadline = ~uint64_t{0};
  for (const wq::Qp* qp = link.timed.front(); qp != nullptr; qp = link.timed.after(*qp)) {
    if (!qp->rc) continue;
    if (qp->rc->deadline_ns != 0) deadline = std::min(deadline, qp->rc->deadline_ns);
    if (qp->rc->pause_until_ns != 0) deadline = std::min(deadline, qp->rc->pause_until_ns);
  }
  // A wire that is full wakes whoever waits, if it can.
  const bool full = link.full_until_ns != 0;
  if (full && link.full->tells_room()) return deadline;
  if (full) return std::min(deadline, link.full_until_ns);
  if (!link.answering.empty() || roce_owes(link))
    deadline = std::min(deadline, link.context->now_ns + owed_look_ns);
  return deadline;
}

}  // namespace kilim::vhca::transport
