// SPDX-License-Identifier: BSD-3-Clause
// Dynamic connections. Adapter's lock held.
#include "vhca/transport/dynamic.hh"

#include <algorithm>
#include <cstring>

#include "vhca/core/address.hh"
#include "vhca/core/journal.hh"
#include "vhca/transport/responder_checks.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Syndrome;
using roce::aeth::Nak;

constexpr std::size_t connections_kept = 32;
// A connection without a message under way gives its place away when it was silent for so long: a
// lost acknowledgement has been asked for again by then.
constexpr uint64_t silent_ns = 500'000'000;
// Who comes back with a lower number than before, after so long, was started anew.
constexpr uint64_t forgotten_ns = 60'000'000'000;
// The numbers of connections only grow: they are times, in units of 1024 nanoseconds.
constexpr unsigned session_shift = 10;

Gid gid_of(const prm::AvSeg& to) noexcept {
  Gid gid;
  std::memcpy(gid.data(), to.rgid, gid.size());
  return gid;
}

QpAttr::Path path_of(const prm::AvSeg& to) noexcept {
  QpAttr::Path path;
  path.dgid = gid_of(to);
  path.flow_label = prm::av::flow_label::get(to);
  path.sgid_index = static_cast<uint8_t>(prm::av::gid_index::get(to));
  path.hop_limit = to.hop_limit;
  path.traffic_class = to.tclass;
  path.is_global = true;
  std::memcpy(path.dmac.data(), to.rmac, path.dmac.size());
  path.udp_sport = to.rlid.host();
  return path;
}

// Whether nothing is under way on a connection of a target.
bool rests(const wq::Qp& c) noexcept {
  if (c.state == QpState::err) return true;
  const wq::RcWire& w = *c.rc;
  const bool answering = std::any_of(w.answers.begin(), w.answers.end(),
                                     [](const wq::RcAnswer& a) { return a.pending; });
  return w.receiving == wq::RcWire::Receiving::nothing && !answering && !w.ack_owed && !w.nak_owed;
}

// The way back to who sent this packet.
void aim_back(const RoceLink& link, wq::Qp& c, const RocePacket& p) noexcept {
  c.attr.dest_qpn = Qpn{p.src_qpn};
  c.attr.path.dgid = p.sgid;
  c.attr.path.dmac = p.smac;
  const auto own = std::find(link.gids.begin(), link.gids.end(), p.dgid);
  c.attr.path.sgid_index =
      static_cast<uint8_t>(own == link.gids.end() ? 0 : own - link.gids.begin());
}

void begin(RoceLink& link, const wq::Qp& target, wq::Qp& c, const RocePacket& p) noexcept {
  wq::flush_held(*link.context, c);
  link.answering.remove(c);
  c.state = QpState::rtr;
  c.broken = false;
  c.established = true;  // of a target nobody is told
  c.attr = target.attr;
  aim_back(link, c, p);
  *c.rc = {};
  c.rc->session = p.session;
  c.rc->expected_psn = p.base_psn;
}

// An answer to a packet of which nothing is remembered.
void answer_once(RoceLink& link, wq::Qp& target, const RocePacket& p, uint8_t kind,
                 uint8_t value) noexcept {
  wq::Qp& spare = *target.connections.back();  // never a connection
  spare.attr = target.attr;
  aim_back(link, spare, p);
  RocePacket answer = packet_of(spare, roce::Op::acknowledge, p.base_psn);
  answer.ack_kind = kind;
  answer.ack_value = value;
  send_packet(link, spare, answer, 0);
}

struct Places {
  wq::Qp* same = nullptr;   // of the packet's initiator
  wq::Qp* other = nullptr;  // unused, or the one that has rested longest
};
Places look_up(const RoceLink& link, const wq::Qp& target, const RocePacket& p) noexcept {
  Places found;
  for (std::size_t i = 0; i < connections_kept; i++) {
    wq::Qp& c = *target.connections[i];
    const wq::RcWire& w = *c.rc;
    if (w.session == 0) {
      if (found.other == nullptr || found.other->rc->session != 0) found.other = &c;
      continue;
    }
    if (c.attr.dest_qpn.value() == p.src_qpn && c.attr.path.dgid == p.sgid) found.same = &c;
    if (!rests(c) || link.context->now_ns - w.heard_ns < silent_ns) continue;
    if (found.other == nullptr || w.heard_ns < found.other->rc->heard_ns) found.other = &c;
  }
  return found;
}

}  // namespace

bool leaves_by_own_gid(const wq::EngineContext& context, const prm::AvSeg& to) noexcept {
  Gid own;
  return port_gid(*context.addresses, prm::av::gid_index::get(to), own);
}

wq::Qp* called_target(const wq::EngineContext& context, const ObjectTable<wq::Qp>& qps,
                      const prm::AvSeg& to) noexcept {
  if (!leads_here(*context.addresses, to)) return nullptr;
  wq::Qp* target = qps.at(prm::av::qpn::get(to));
  bool there = target != nullptr && target->type == QpType::dct && answers(*target);
  return there ? target : nullptr;
}

Verdict open_to(wq::EngineContext& context, wq::Qp& target, Qpn initiator, uint64_t key) noexcept {
  target.attr.dest_qpn = initiator;
  if (key == target.spec.dc_key) return Verdict::done();
  return refuse(context, target, {Syndrome::remote_access, "the DC access key is another one"});
}

bool goes_out(const RoceLink& link, const wq::Qp& qp, const wq::SendWqe& wqe,
              const RequestData& ask) noexcept {
  const wq::EngineContext& context = *link.context;
  return !qp.failed.has(wqe.stream) && leaves_by_own_gid(context, ask.to) &&
         !leads_here(*context.addresses, ask.to);
}

bool connected_to(const wq::Qp& qp, const RequestData& ask) noexcept {
  const wq::RcWire& w = *qp.rc;
  const QpAttr::Path want = path_of(ask.to), &is = qp.attr.path;
  return w.session != 0 && w.dc_key == prm::av::dc_key(ask.to) &&
         qp.attr.dest_qpn.value() == prm::av::qpn::get(ask.to) && is.dgid == want.dgid &&
         is.sgid_index == want.sgid_index && is.dmac == want.dmac &&
         is.udp_sport == want.udp_sport && is.traffic_class == want.traffic_class;
}

void connect_to(RoceLink& link, wq::Qp& qp, const RequestData& ask) noexcept {
  wq::RcWire& w = *qp.rc;
  const uint64_t now = link.context->now_ns >> session_shift & roce::dceth::session_mask;
  qp.attr.path = path_of(ask.to);
  qp.attr.dest_qpn = Qpn{prm::av::qpn::get(ask.to)};
  w.dc_key = prm::av::dc_key(ask.to);
  w.last_session = w.session = std::max(now, w.last_session + 1);
}

void announce(const wq::Qp& qp, RocePacket& p) noexcept {
  p.dc_key = qp.rc->dc_key;
  p.session = qp.rc->session;
  p.src_qpn = qp.qpn.value();
  p.base_psn = qp.rc->una_psn;
}

void prepare_connections(wq::Qp& target) {
  // One more than are kept, for answers to packets that belong to none.
  for (std::size_t i = 0; i <= connections_kept; i++) {
    auto c = std::make_unique<wq::Qp>();
    c->qpn = target.qpn;
    c->type = target.type;
    c->paged = target.paged;
    c->spec = target.spec;
    c->recv_cq = target.recv_cq;
    c->srq = target.srq;
    c->rc = std::make_unique<wq::RcWire>();
    target.connections.push_back(std::move(c));
  }
}

wq::Qp* connection_of(RoceLink& link, wq::Qp& target, const RocePacket& p) noexcept {
  if ((p.flags & roce::flag::response) != 0 || !answers(target) || p.session == 0) return nullptr;
  if (p.dc_key != target.spec.dc_key) {
    (void)refuse(*link.context, target,
                 {Syndrome::remote_access, "the DC access key is another one"});
    answer_once(link, target, p, roce::aeth::nak, static_cast<uint8_t>(Nak::remote_access));
    return nullptr;
  }
  const Places found = look_up(link, target, p);
  wq::Qp* c = found.same;
  const uint64_t now = link.context->now_ns;
  if (c != nullptr && p.session < c->rc->session && now - c->rc->heard_ns < forgotten_ns)
    return nullptr;  // late: the initiator has gone on since
  if (c == nullptr) c = found.other;
  if (c == nullptr) {
    answer_once(link, target, p, roce::aeth::rnr, target.attr.min_rnr_timer);
    return nullptr;
  }
  if (c != found.same || p.session != c->rc->session) begin(link, target, *c, p);
  c->rc->heard_ns = now;
  return c;
}

}  // namespace kilim::vhca::transport
