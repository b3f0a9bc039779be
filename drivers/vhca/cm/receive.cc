// SPDX-License-Identifier: BSD-3-Clause
// Messages about ids that are there, one function a kind, as cm.c's cm_*_handler() do. All of it is
// anybody's word: what fits no id is forgotten, or answered where the kernel answers. Adapter's
// lock held. Never allocates.
#include <array>

#include "vhca/cm/arrival.hh"

namespace kilim::vhca::cm {

namespace {

// cm_acquire_id(): the id that a message names, if the peer's is the one that it knows.
Connection* acquire(AgentState& a, be32 local, uint32_t remote) noexcept {
  Connection* c = a.ids.at(CommId{local.host()});
  return c != nullptr && c->remote_id == remote ? c : nullptr;
}

// cm_rep_handler(): the first REP of an id that has asked.
void got_first_rep(AgentState& a, Connection& c, const RepMad& m, const Arrival& in) noexcept {
  const Row* row = row_of(c.state, Input::got_rep);
  Event e = event_of(a, c, EventKind::response);
  read_rep(m, c.transport == Transport::xrc, e);
  Connection peer;
  peer.remote_id = m.local_comm_id.host();
  peer.remote_guid = e.remote_ca_guid;
  peer.remote_qpn = e.remote_qpn;
  if (row == nullptr || peer.remote_id == 0 || a.ids.find(By::remote_id, peer) != nullptr) {
    a.counts.duplicates++;
    return;
  }
  if (Connection* old = a.ids.find(By::remote_qpn, peer))
    return refuse_stale(a, in, About::rep, *old);
  c.remote_id = peer.remote_id;
  c.remote_guid = peer.remote_guid;
  c.remote_qpn = peer.remote_qpn;
  c.initiator_depth = e.initiator_depth;
  c.responder_resources = e.responder_resources;
  c.sq_psn = e.starting_psn;
  c.rnr_retry = e.rnr_retry_count;
  c.ack_timeout =
      ack_timeout_of(e.target_ack_delay, static_cast<uint8_t>(c.ack_timeout - (c.ack_timeout > 0)));
  a.ids.insert(By::remote_id, c);
  a.ids.insert(By::remote_qpn, c);
  take_row(a, c, *row, in.now);
  (void)report(c, e);
}

void got_rep(AgentState& a, const Arrival& in) noexcept {
  const auto m = message_of<RepMad>(in.mad);
  if (Connection* c = acquire(a, m.remote_comm_id, 0)) return got_first_rep(a, *c, m, in);
  Connection* c = acquire(a, m.remote_comm_id, m.local_comm_id.host());
  if (c == nullptr) {
    a.counts.unmatched++;
    return;
  }
  const Row* row = row_of(c->state, Input::got_rep);  // cm_dup_rep_handler()
  if (row == nullptr)
    a.counts.duplicates++;
  else
    take_row(a, *c, *row, in.now);
}

// The end of all that follow: the row, if there is one, and the event.
void take_and_report(AgentState& a, Connection* c, Input input, const Event& e,
                     uint64_t now) noexcept {
  if (c == nullptr) {
    a.counts.unmatched++;
    return;
  }
  const Row* row = row_of(c->state, input);
  if (row == nullptr) {
    a.counts.duplicates++;
    return;
  }
  take_row(a, *c, *row, now);
  if (row->to != row->from) (void)report(*c, e);
}

Event blank(const AgentState& a, const Connection* c, EventKind kind) noexcept {
  return c == nullptr ? Event{} : event_of(a, *c, kind);
}

void got_rtu(AgentState& a, const Arrival& in) noexcept {
  const auto m = message_of<RtuMad>(in.mad);
  Connection* c = acquire(a, m.remote_comm_id, m.local_comm_id.host());
  Event e = blank(a, c, EventKind::established);
  (void)e.private_data.assign(std::as_bytes(std::span(m.private_data)));
  take_and_report(a, c, Input::got_rtu, e, in.now);
}

void got_drep(AgentState& a, const Arrival& in) noexcept {
  const auto m = message_of<RtuMad>(in.mad);
  Connection* c = acquire(a, m.remote_comm_id, m.local_comm_id.host());
  Event e = blank(a, c, EventKind::disconnected);
  (void)e.private_data.assign(std::as_bytes(std::span(m.private_data)));
  take_and_report(a, c, Input::got_drep, e, in.now);
}

// cm_issue_drep(): of a connection that is no more here, so that the peer's may end too.
// Where other processes are the same adapter it may be one of theirs.
void answer_unknown_dreq(AgentState& a, const DreqMad& m, const Arrival& in) noexcept {
  Mad out;
  write_drep(out, {m.remote_comm_id.host(), m.local_comm_id.host(), m.header.tid.host()}, {});
  a.counts.unmatched++;
  if (!a.config.shared) post(a, in.back, out, in.now);
}

void got_dreq(AgentState& a, const Arrival& in) noexcept {
  const auto m = message_of<DreqMad>(in.mad);
  Connection* c = acquire(a, m.remote_comm_id, m.local_comm_id.host());
  if (c == nullptr) return answer_unknown_dreq(a, m, in);
  if (c->local_qpn != dreq::remote_qpn::get(m)) {
    a.counts.unmatched++;
    return;
  }
  const Row* row = row_of(c->state, Input::got_dreq);
  if (row != nullptr && row->to == State::dreq_rcvd) c->tid = m.header.tid.host();
  Event e = blank(a, c, EventKind::disconnect);
  (void)e.private_data.assign(std::as_bytes(std::span(m.private_data)));
  take_and_report(a, c, Input::got_dreq, e, in.now);
}

// cm_acquire_rejected_id().
Connection* acquire_refused(AgentState& a, const RejMad& m) noexcept {
  const uint32_t remote = m.local_comm_id.host();
  if (static_cast<Reason>(rej::reason::get(m)) == Reason::timeout) {
    Connection peer;
    peer.remote_id = remote;
    be64 guid;
    std::memcpy(&guid, m.info, sizeof(guid));
    peer.remote_guid = guid.host();
    return a.ids.find(By::remote_id, peer);
  }
  const bool of_req = rej::about::get(m) == static_cast<uint8_t>(About::req);
  return acquire(a, m.remote_comm_id, of_req ? 0 : remote);
}

void got_rej(AgentState& a, const Arrival& in) noexcept {
  const auto m = message_of<RejMad>(in.mad);
  Connection* c = acquire_refused(a, m);
  Event e = blank(a, c, EventKind::rejected);
  read_rej(m, e);
  const bool stale = e.reason == Reason::stale_connection;
  take_and_report(a, c, stale ? Input::got_stale : Input::got_rej, e, in.now);
}

// cm_mra_handler(). Of a LAP: none was sent.
void got_mra(AgentState& a, const Arrival& in) noexcept {
  const auto m = message_of<MraMad>(in.mad);
  const auto about = static_cast<About>(mra::about::get(m));
  const bool of_req = about == About::req;
  Connection* c = nullptr;
  if (of_req || about == About::rep)
    c = acquire(a, m.remote_comm_id, of_req ? 0 : m.local_comm_id.host());
  Event e = blank(a, c, EventKind::later);
  e.service_timeout = static_cast<uint8_t>(mra::service_timeout::get(m));
  (void)e.private_data.assign(std::as_bytes(std::span(m.private_data)));
  const Input input = of_req ? Input::got_mra_of_req : Input::got_mra_of_rep;
  if (c != nullptr && row_of(c->state, input) != nullptr)
    c->timeout_ns = rough_ns(e.service_timeout) + rough_ns(c->ack_timeout);
  take_and_report(a, c, input, e, in.now);
}

void got_sidr_rep(AgentState& a, const Arrival& in) noexcept {
  const auto m = message_of<SidrRepMad>(in.mad);
  Connection* c = acquire(a, m.request_id, 0);
  Event e = blank(a, c, EventKind::sidr_answer);
  read_sidr_rep(m, e);
  take_and_report(a, c, Input::got_sidr_rep, e, in.now);
}

// cm_lap_handler(), cm_apr_handler(): over RoCE there are no alternate paths, and no answer.
void got_alternate(AgentState& a, const Arrival&) noexcept {
  a.counts.refused++;
}

using Handler = void (*)(AgentState&, const Arrival&) noexcept;
// By attribute, from Attribute::req on.
constexpr std::array<Handler, 11> handlers = {
    got_req,  got_mra,      got_rej,      got_rep,       got_rtu,      got_dreq,
    got_drep, got_sidr_req, got_sidr_rep, got_alternate, got_alternate};

}  // namespace

void receive(AgentState& a, const Route& back, std::span<const std::byte> mad, uint64_t now,
             bool own) noexcept {
  a.counts.received++;
  const bool ours = is_cm_mad(mad);
  const uint32_t attribute = ours ? message_of<MadHeader>(mad).attribute.host() : 0u;
  const uint32_t kind = attribute - static_cast<uint32_t>(Attribute::req);
  if (!ours || kind >= handlers.size()) {
    a.counts.malformed++;
    return;
  }
  handlers[kind](a, {back, mad, now, own});
}

}  // namespace kilim::vhca::cm
