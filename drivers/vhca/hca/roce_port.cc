// SPDX-License-Identifier: BSD-3-Clause
// The engine's side of the protocols. Adapter's lock held.
#include "vhca/hca/roce_port.hh"

#include <algorithm>
#include <cstring>

#include "vhca/hca/eth_state.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/journal.hh"
#include "vhca/hca/modify_qp.hh"
#include "vhca/hca/scheduler.hh"
#include "vhca/transport/completer_wire.hh"
#include "vhca/transport/datagram.hh"
#include "vhca/transport/dynamic.hh"
#include "vhca/transport/parting.hh"
#include "vhca/transport/requester_wire.hh"
#include "vhca/transport/responder_wire.hh"
#include "vhca/transport/weak_wire.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca {

namespace {

constexpr uint32_t longest_payload = 4096;
constexpr uint64_t full_wire_ns = 10'000;
constexpr std::size_t answers_a_turn = 256;
constexpr std::size_t most_partings = 256;  // of queues destroyed at about the same time

bool for_us(const HcaState& h, std::span<const std::byte> frame) noexcept {
  return frame.size() >= 6 && std::memcmp(frame.data(), h.config.mac.data(), 6) == 0;
}
// A multicast address that IPv6 made.
bool for_a_group(std::span<const std::byte> frame) noexcept {
  return frame.size() >= 6 && frame[0] == std::byte{0x33} && frame[1] == std::byte{0x33};
}

bool is_wired(QpType type) noexcept {
  return type != QpType::ud && type != QpType::raw_packet;
}

// Whether a packet of a connection can come to this queue.
bool hears(const Qp& qp, const RocePacket& p) noexcept {
  if (!qp.rc || service_of(qp.type) != p.service || p.sgid != qp.attr.path.dgid) return false;
  bool response = (p.flags & roce::flag::response) != 0;
  if (p.service == roce::Service::dc) return response && qp.rc->session != 0;
  return p.service != roce::Service::xrc || response == (qp.type == QpType::xrc_ini);
}

// False: no queue for it.
bool take_packet(HcaState& h, const RocePacket& p) noexcept {
  if (p.service == roce::Service::ud) return take_datagram(h, p);
  Qp* qp = h.qps.at(p.dest_qpn);
  if (qp != nullptr && qp->type == QpType::dct) {
    if (p.service != roce::Service::dc || qp->connections.empty()) return false;
    if (Qp* connection = connection_of(*h.roce, *qp, p)) take_request(*h.roce, *connection, p);
    return true;
  }
  if (qp == nullptr || !hears(*qp, p)) return false;
  if ((p.flags & roce::flag::response) != 0)
    take_response(*h.roce, *qp, p);
  else
    take_request(*h.roce, *qp, p);
  note_drained(h, *qp);
  return true;
}

}  // namespace

void RoceLinkDeleter::operator()(RoceLink* link) const noexcept {
  delete link;
}

uint32_t roce_mtu(uint32_t wire_mtu) noexcept {
  uint32_t mtu = longest_payload;
  while (mtu > 256 && mtu + roce_data_overhead > wire_mtu) mtu /= 2;
  return mtu;
}

void roce_open(HcaState& h) {
  h.roce.reset(new RoceLink);
  h.roce->works = &h.works;
  h.roce->ready = &h.ready;
  h.roce->mac = h.config.mac;
  Gid gid;
  for (uint32_t i = 0; port_gid(h.config, i, gid); i++) h.roce->gids.push_back(gid);
  for (const EthPort& port : h.eth->ports) {
    h.roce->wires.push_back(port.wire);
    if (port.wire != nullptr) port.wire->publish(h.config.mac, h.roce->gids);
  }
  h.roce->partings.resize(most_partings);
  h.roce->frame.resize(longest_payload + roce_overhead);
}

void roce_enter(HcaState& h, Qp& qp, QpState from) {
  if (qp.state == QpState::reset || qp.state == QpState::init) qp.rc.reset();
  if (!is_wired(qp.type) || qp.loopback || h.roce->wire_of(qp) == nullptr) return;
  if (qp.type == QpType::dct) {
    if (qp.state == QpState::rtr) prepare_connections(qp);
    return;
  }
  if (qp.state == QpState::rtr && from == QpState::init) {
    qp.rc = std::make_unique<RcWire>();
    qp.rc->expected_psn = qp.attr.rq_psn & roce::psn_mask;
  }
  if (qp.state == QpState::rts && from == QpState::rtr && qp.rc) start_requester(qp);
  if (qp.state == QpState::rts && from == QpState::sqe && qp.rc) send_anew(qp);
}

void roce_part(HcaState& h, Qp& qp) noexcept {
  if (h.dead) return;
  say_goodbye(*h.roce, qp);
  flush_held(h.works, qp);
  for (const std::unique_ptr<Qp>& c : qp.connections) {
    say_goodbye(*h.roce, *c);
    flush_held(h.works, *c);
  }
}

bool roce_owes(const HcaState& h) noexcept {
  return !h.dead && h.roce->goodbyes != 0;
}

void roce_forget(HcaState& h, Qp& qp) noexcept {
  h.roce->timed.remove(qp);
  h.roce->answering.remove(qp);
  h.roce->blocked.remove(qp);
  if (qp.rc) qp.rc->count = 0;
  for (const std::unique_ptr<Qp>& c : qp.connections) roce_forget(h, *c);
}

std::size_t roce_run(HcaState& h, Qp& qp, std::size_t budget,
                     bool (*run_here)(HcaState&, Qp&)) noexcept {
  std::size_t done = 0;
  RoceLink& link = *h.roce;
  if (link.full_until_ns != 0) {
    qp.rc->idle = true;
    link.blocked.push(qp);
    return 0;
  }
  qp.rc->idle = false;
  for (; done < budget && !due_to_die(h); done++) {
    RequesterStep step = send_next(link, qp);
    if (step == RequesterStep::sent) continue;
    bool goes_on = step == RequesterStep::local && run_here(h, qp);
    if (step == RequesterStep::local) after_local(qp);
    if (goes_on) continue;
    qp.rc->idle = true;
    break;
  }
  if (weak_on_wire(qp) != nullptr) [[unlikely]]
    change_keys(link, qp);
  if (link.full_until_ns != 0) {
    link.blocked.push(qp);
    link.first_has_sent = done > 0;
  }
  return done;
}

bool roce_may_send(const Qp& qp) noexcept {
  return !qp.rc->idle;
}

bool roce_take(HcaState& h, uint32_t port, std::span<const std::byte> frame) noexcept {
  bool group = for_a_group(frame);
  if (!group && !for_us(h, frame)) return false;
  RocePacket p;
  RoceParse parsed = parse_roce(frame, p);
  if (parsed == RoceParse::not_roce) return false;
  if (group) return parsed == RoceParse::ok && take_packet(h, p);
  bool bad = parsed == RoceParse::bad;
  if (bad || !take_packet(h, p))
    h.works.journal->frame_drop(port, static_cast<uint32_t>(frame.size()),
                                bad ? "a malformed RoCE packet" : "no queue for it");
  return true;
}

void roce_timers(HcaState& h) noexcept {
  RoceLink& link = *h.roce;
  for (Qp* qp = link.timed.front(); qp != nullptr;) {
    Qp* next = link.timed.after(*qp);
    RcWire* w = qp->rc.get();
    bool runs = qp->state == QpState::rts || qp->state == QpState::sqd;
    if (w != nullptr && runs) look_at_clock(link, *qp);
    runs = qp->state == QpState::rts || qp->state == QpState::sqd;
    if (w == nullptr || !runs || (w->deadline_ns == 0 && w->pause_until_ns == 0))
      link.timed.remove(*qp);
    qp = next;
  }
}

std::size_t roce_answer(HcaState& h) noexcept {
  RoceLink& link = *h.roce;
  std::size_t done = send_goodbyes(link);
  for (Qp* qp = link.answering.front(); qp != nullptr && done < answers_a_turn;) {
    std::size_t sent = 0;
    bool all = !qp->rc || send_owed(link, *qp, sent);
    Qp* next = link.answering.after(*qp);
    // Who sent some and has more goes behind the others.
    if (all || sent > 0) link.answering.remove(*qp);
    if (!all) link.answering.push(*qp);
    done += sent;
    qp = next;
  }
  return done;
}

void roce_unblock(HcaState& h) noexcept {
  RoceLink& link = *h.roce;
  if (link.full_until_ns == 0 || link.full_until_ns > h.works.now_ns) return;
  link.full_until_ns = 0;
  Qp* last = link.first_has_sent ? link.blocked.front() : nullptr;
  if (last != nullptr) link.blocked.remove(*last);
  while (Qp* qp = link.blocked.front()) {
    link.blocked.remove(*qp);
    h.ready.push(*qp);
  }
  if (last != nullptr) h.ready.push(*last);
}

uint64_t roce_deadline(const HcaState& h) noexcept {
  uint64_t deadline = ~uint64_t{0};
  for (const Qp* qp = h.roce->timed.front(); qp != nullptr; qp = h.roce->timed.after(*qp)) {
    if (!qp->rc) continue;
    if (qp->rc->deadline_ns != 0) deadline = std::min(deadline, qp->rc->deadline_ns);
    if (qp->rc->pause_until_ns != 0) deadline = std::min(deadline, qp->rc->pause_until_ns);
  }
  if (!h.roce->blocked.empty()) deadline = std::min(deadline, h.roce->full_until_ns);
  if (!h.roce->answering.empty() || roce_owes(h))
    deadline = std::min(deadline, h.works.now_ns + full_wire_ns);
  return deadline;
}

}  // namespace kilim::vhca
