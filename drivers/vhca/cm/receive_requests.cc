// SPDX-License-Identifier: BSD-3-Clause
// REQ and SIDR_REQ: known already, stale, refused, or a new id. Adapter's lock held. Never
// allocates.
#include "vhca/cm/arrival.hh"

namespace kilim::vhca::cm {

namespace {

void refuse_request(AgentState& a, const Arrival& in, Reason reason) noexcept {
  const auto own = std::as_bytes(std::span(a.config.gid));
  const bool gid = reason == Reason::invalid_alternate_gid;
  refuse(a, in, {About::req, reason, gid ? own : std::span<const std::byte>{}, {}});
}

// Whether it came to a GID of the port's: else nothing can be sent back
// (cm_init_av_for_response()).
bool is_ours(AgentState& a, const Arrival& in) noexcept {
  const bool ours = a.port.owns(in.back.sgid);
  if (!ours) a.counts.unmatched++;
  return ours;
}

// Whether a REQ is one that can be served; else why not.
bool check_request(const ReqMad& m, Reason& why) noexcept {
  Transport transport;
  // cma.c, cma_ib_check_req_qp_type(): of its listeners none is for that.
  if (!transport_of(m, transport))
    why = Reason::consumer_defined;
  else if (has_alternate(m))  // cm_req_handler(): no GID entry is found for it
    why = Reason::invalid_alternate_gid;
  else
    return true;
  return false;
}

void fill(Connection& c, const ReqMad& m, const Event& e) noexcept {
  c.passive = true;
  c.state = State::req_rcvd;
  c.transport = e.transport;
  c.route = e.route;
  c.service_id = e.service_id;
  c.tid = m.header.tid.host();
  c.remote_id = m.local_comm_id.host();
  c.remote_guid = e.remote_ca_guid;
  c.remote_qpn = e.remote_qpn;
  c.sq_psn = e.starting_psn;
  c.path_mtu = e.path_mtu;
  c.responder_resources = e.responder_resources;
  c.initiator_depth = e.initiator_depth;
  c.retry_count = e.retry_count;
  c.rnr_retry = e.rnr_retry_count;
  c.ack_timeout = e.local_ack_timeout;
  c.retries = static_cast<uint8_t>(req::max_cm_retries::get(m));
  c.timeout_ns = rough_ns(e.remote_cm_timeout);
}

// What the observer says of a request. It may have done anything with the id.
void settle(AgentState& a, CommId id, Answer answer, uint64_t now) noexcept {
  Connection* c = a.ids.at(id);
  if (answer == Answer::taken || c == nullptr) return;
  if (answer == Answer::forgotten && c->state == State::req_rcvd) return a.ids.free(*c);
  remove(a, *c, now);
}

void report_request(AgentState& a, Connection& c, const Listener& l, Event& e,
                    uint64_t now) noexcept {
  c.observer = l.observer;
  c.cookie = l.cookie;
  e.id = a.ids.id_of(c);
  e.cookie = l.cookie;
  settle(a, e.id, report(c, e), now);
}

void refuse_sidr(AgentState& a, const SidrReqMad& m, SidrStatus status,
                 const Arrival& in) noexcept {
  Mad out;
  write_sidr_rep(out, {0, m.request_id.host(), m.header.tid.host()}, m.service_id.host(),
                 {status, 0, 0, {}, {}});
  a.counts.refused++;
  post(a, in.back, out, in.now);
}

// No listener here. Of several processes that are one adapter the one that asks has looked for them
// all; the others have nothing to say.
bool others_answer(const AgentState& a, const Arrival& in, uint32_t id_of_peer) noexcept {
  if (!a.config.shared) return false;
  const Connection* asker = in.own ? a.ids.at(CommId{id_of_peer}) : nullptr;
  return asker == nullptr || asker->asked_others;
}

}  // namespace

void refuse(AgentState& a, const Arrival& in, const Refusal& why) noexcept {
  // All messages that are refused so begin with two ids; a REQ's second is 0.
  const auto m = message_of<RtuMad>(in.mad);
  Mad out;
  write_rej(out, {m.remote_comm_id.host(), m.local_comm_id.host(), m.header.tid.host()}, why);
  a.counts.refused++;
  post(a, in.back, out, in.now);
}

void refuse_stale(AgentState& a, const Arrival& in, About about, Connection& old) noexcept {
  refuse(a, in, {about, Reason::stale_connection, {}, {}});
  begin_disconnect(a, old, {}, in.now);
}

// cm_req_handler(), cm_match_req().
void got_req(AgentState& a, const Arrival& in) noexcept {
  const auto m = message_of<ReqMad>(in.mad);
  if (!is_ours(a, in)) return;
  Connection peer;
  peer.remote_id = m.local_comm_id.host();
  peer.remote_guid = m.ca_guid.host();
  peer.remote_qpn = req::qpn::get(m);
  if (Connection* known = a.ids.find(By::remote_id, peer)) {
    const Row* row = row_of(known->state, Input::got_req);
    if (row == nullptr) a.counts.duplicates++;
    return row == nullptr ? void() : take_row(a, *known, *row, in.now);
  }
  if (Connection* old = a.ids.find(By::remote_qpn, peer))
    return refuse_stale(a, in, About::req, *old);
  const Listener* l = find_listener(a, m.service_id.host());
  if (l == nullptr && others_answer(a, in, peer.remote_id)) return;
  if (l == nullptr) return refuse_request(a, in, Reason::invalid_service_id);
  Event e;
  e.route = route_of(m, in.back);
  Reason why;
  if (!check_request(m, why)) return refuse_request(a, in, why);
  Connection* c = a.ids.create();
  if (c == nullptr) return refuse_request(a, in, Reason::no_resources);
  read_req(m, e);
  fill(*c, m, e);
  a.ids.insert(By::remote_id, *c);
  a.ids.insert(By::remote_qpn, *c);
  report_request(a, *c, *l, e, in.now);
}

// cm_sidr_req_handler().
void got_sidr_req(AgentState& a, const Arrival& in) noexcept {
  const auto m = message_of<SidrReqMad>(in.mad);
  if (!is_ours(a, in)) return;
  Connection peer;
  peer.remote_id = m.request_id.host();
  peer.route = in.back;
  if (a.ids.find(By::sidr, peer) != nullptr) {
    a.counts.duplicates++;
    return;
  }
  const Listener* l = find_listener(a, m.service_id.host());
  if (l == nullptr && others_answer(a, in, peer.remote_id)) return;
  if (l == nullptr) return refuse_sidr(a, m, SidrStatus::unsupported, in);
  Connection* c = a.ids.create();
  if (c == nullptr) return refuse_sidr(a, m, SidrStatus::reject, in);
  Event e;
  e.kind = EventKind::sidr_request;
  e.route = in.back;
  read_sidr_req(m, e);
  c->passive = true;
  c->state = State::sidr_req_rcvd;
  c->route = in.back;
  c->service_id = e.service_id;
  c->tid = m.header.tid.host();
  c->remote_id = peer.remote_id;
  a.ids.insert(By::sidr, *c);
  report_request(a, *c, *l, e, in.now);
}

}  // namespace kilim::vhca::cm
