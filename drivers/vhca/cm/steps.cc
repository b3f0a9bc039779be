// SPDX-License-Identifier: BSD-3-Clause
// Rows carried out, messages posted, timers run out. Adapter's lock held. Never allocates.
#include <algorithm>
#include <utility>

#include "vhca/cm/agent_state.hh"

namespace kilim::vhca::cm {

namespace {

constexpr std::size_t timers_a_turn = 256;

constexpr std::pair<State, EventKind> given_up[] = {
    {State::req_sent, EventKind::unreachable},
    {State::mra_req_rcvd, EventKind::unreachable},
    {State::rep_sent, EventKind::unreachable},
    {State::mra_rep_rcvd, EventKind::unreachable},
    {State::dreq_sent, EventKind::no_disconnect},
    {State::sidr_req_sent, EventKind::sidr_unreachable},
};

EventKind given_up_in(State s) noexcept {
  for (const auto& [state, kind] : given_up) {
    if (state == s) return kind;
  }
  return EventKind::unreachable;
}

void set_timer(AgentState& a, Connection& c, uint64_t after_ns, uint64_t now) noexcept {
  c.deadline_ns = now + std::max<uint64_t>(after_ns, 1);
  a.ids.start(c);
}

void set_timer(AgentState& a, Connection& c, Timer what, uint64_t now) noexcept {
  switch (what) {
    case Timer::keep:
      return;
    case Timer::stop:
      return a.ids.stop(c);
    case Timer::resend:
      c.retries_left = c.retries;
      return set_timer(a, c, c.timeout_ns, now);
    case Timer::later:
      return set_timer(a, c, c.timeout_ns, now);
    case Timer::wait:  // cm_enter_timewait()
      return set_timer(a, c, rough_ns(c.ack_timeout), now);
  }
}

void say(AgentState& a, Connection& c, const Row& row, uint64_t now) noexcept {
  const Names names = names_of(a, c);
  const be64 guid{a.config.ca_guid};
  Refusal no{about_of(row.from), Reason::consumer_defined, {}, {}};
  switch (row.say) {
    case Say::nothing:
      return;
    case Say::again:
      break;
    case Say::rej_timeout:  // the GUID tells whose request it was: the peer knows no id of it
      no.reason = Reason::timeout;
      no.info = std::as_bytes(std::span(&guid, 1));
      write_rej(c.mad, names, no);
      break;
    case Say::rej_consumer:
      write_rej(c.mad, names, no);
      break;
    case Say::dreq:
      write_dreq(c.mad, names, c.remote_qpn, {});
      break;
    case Say::drep:
      write_drep(c.mad, names, {});
      break;
    case Say::sidr_reject:
      write_sidr_rep(c.mad, names, c.service_id, {SidrStatus::reject, 0, 0, {}, {}});
      break;
  }
  post(a, c, now);
}

void run_timer(AgentState& a, Connection& c, uint64_t now) noexcept {
  if (c.state != State::timewait && c.retries_left > 0) {
    c.retries_left--;
    a.counts.retries++;
    set_timer(a, c, c.timeout_ns, now);
    return post(a, c, now);
  }
  const bool waited = c.state == State::timewait;
  const EventKind kind = waited ? EventKind::timewait_over : given_up_in(c.state);
  const Row* row = row_of(c.state, waited ? Input::waited : Input::gave_up);
  if (row == nullptr) return a.ids.stop(c);
  take_row(a, c, *row, now);
  (void)report(c, event_of(a, c, kind));
}

// At once, since the process may end behind it, but not before what waits.
void post_outward(AgentState& a, const Route& route, const Mad& mad, uint64_t now) noexcept {
  if (a.outbox.outward() == 0) {
    if (a.port.send(route, mad)) {
      a.counts.sent++;
      return;
    }
    a.blocked = true;
    a.try_again_ns = now + full_pause_ns;
  }
  if (!a.outbox.push(route, false, mad)) a.counts.lost++;
}

// What goes to the own port is heard by this agent; shared: by its adapter's other processes too.
void post(AgentState& a, const Route& route, const Mad& mad, bool shared, uint64_t now) noexcept {
  const bool inward = a.port.owns(route.dgid);
  // A message that is lost is sent again by its timer, or by the peer's.
  if (!inward || shared) post_outward(a, route, mad, now);
  if (inward && !a.outbox.push(route, true, mad)) a.counts.lost++;
}

}  // namespace

Names names_of(const AgentState& a, const Connection& c) noexcept {
  const uint32_t local = a.ids.id_of(c).value();
  // cm_format_rej(): who has not answered the REQ yet has no id for the peer.
  return {c.state == State::req_rcvd ? 0 : local, c.remote_id, c.tid};
}

Sender sender_of(const AgentState& a, const Connection& c) noexcept {
  return {a.config.ca_guid, a.config.ack_delay, c.transport == Transport::xrc && c.passive};
}

About about_of(State s) noexcept {
  if (s == State::req_rcvd || s == State::mra_req_sent) return About::req;
  if (s == State::rep_rcvd || s == State::mra_rep_sent) return About::rep;
  return About::other;
}

void post(AgentState& a, const Route& route, const Mad& mad, uint64_t now) noexcept {
  post(a, route, mad, a.config.shared, now);
}

// A request to this adapter goes to its other processes if one of them listens now: who listens
// later does not find one that has been refused.
void post(AgentState& a, Connection& c, uint64_t now) noexcept {
  const bool asks = c.state == State::req_sent || c.state == State::sidr_req_sent;
  if (a.config.shared && asks && !c.asked_others) c.asked_others = a.port.is_served(c.service_id);
  post(a, c.route, c.mad, a.config.shared && (!asks || c.asked_others), now);
}

void take_row(AgentState& a, Connection& c, const Row& row, uint64_t now) noexcept {
  if (row.from == row.to) a.counts.duplicates++;
  say(a, c, row, now);
  c.state = row.to;
  // Copies of the peer's DREQ are answered from time wait.
  if (row.timer == Timer::wait && row.input != Input::send_drep)
    write_drep(c.mad, names_of(a, c), {});
  if (row.to == State::idle || row.to == State::timewait) {  // cm_remove_remote()
    for (By by : {By::remote_id, By::remote_qpn, By::sidr}) a.ids.erase(by, c);
  }
  set_timer(a, c, row.timer, now);
  if (row.timer == Timer::resend) post(a, c, now);
  watch_peer(a, c, now);
}

void remove(AgentState& a, Connection& c, uint64_t now) noexcept {
  c.observer = nullptr;
  const Row* row = row_of(c.state, Input::destroy);
  // An XRC target goes on without its id (cm_destroy_id()).
  const bool stays = c.state == State::established && c.transport == Transport::xrc && c.passive;
  if (row != nullptr && !stays) take_row(a, c, *row, now);
  a.ids.free(c);
}

void begin_disconnect(AgentState& a, Connection& c, std::span<const std::byte> private_data,
                      uint64_t now) noexcept {
  const Row* row = row_of(c.state, Input::send_dreq);
  if (row == nullptr) return;
  c.tid = a.ids.id_of(c).value();
  write_dreq(c.mad, names_of(a, c), c.remote_qpn, private_data);
  take_row(a, c, *row, now);
}

Event event_of(const AgentState& a, const Connection& c, EventKind kind) noexcept {
  Event e;
  e.kind = kind;
  e.id = a.ids.id_of(c);
  e.cookie = c.cookie;
  return e;
}

Answer report(const Connection& c, const Event& e) noexcept {
  return c.observer == nullptr ? Answer::taken : c.observer->on_event(e);
}

std::size_t run_timers(AgentState& a, uint64_t now) noexcept {
  std::size_t done = 0;
  for (; done < timers_a_turn; done++) {
    Connection* c = a.ids.first_due();
    if (c == nullptr || c->deadline_ns > now) break;
    run_timer(a, *c, now);
  }
  return done;
}

}  // namespace kilim::vhca::cm
