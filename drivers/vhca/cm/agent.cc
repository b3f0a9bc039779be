// SPDX-License-Identifier: BSD-3-Clause
// The calls from above. Adapter's lock held.
#include "vhca/cm/agent.hh"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "vhca/cm/agent_state.hh"

namespace kilim::vhca::cm {

namespace {

constexpr std::size_t letters_a_turn = 256;
constexpr Error no_id{EINVAL, "no such id"};
constexpr Error wrong_state{EINVAL, "the id is in no state for that"};
constexpr Error too_wide{EINVAL, "a value is wider than its field, or the private data too long"};
constexpr Error no_place{ENOMEM, "all ids of the port are in use"};
constexpr Error not_ours{EADDRNOTAVAIL, "the source GID is none of the port's"};

// The id and the row of what is to happen to it; null: neither.
struct Found {
  Connection* c = nullptr;
  const Row* row = nullptr;
  Error error = no_id;
};

Found find_row(AgentState& a, CommId id, Input input) noexcept {
  Found f;
  f.c = a.ids.at(id);
  if (f.c == nullptr) return f;
  f.row = row_of(f.c->state, input);
  f.error = wrong_state;
  return f;
}

Connection* make_active(AgentState& a, const Route& route, Observer& observer,
                        uint64_t cookie) noexcept {
  Connection* c = a.ids.create();
  if (c == nullptr) return nullptr;
  c->observer = &observer;
  c->cookie = cookie;
  c->route = route;
  c->tid = a.ids.id_of(*c).value();
  return c;
}

bool reaches(State s, QpStep step) noexcept {
  const bool asked = s == State::req_sent || s == State::mra_req_rcvd;
  const bool known = s == State::req_rcvd || s == State::mra_req_sent || s == State::rep_sent ||
                     s == State::rep_rcvd || s == State::mra_rep_sent || s == State::mra_rep_rcvd ||
                     s == State::established;
  return known || (asked && step == QpStep::init);
}

}  // namespace

Listener* find_listener(AgentState& a, uint64_t service_id) noexcept {
  const auto at =
      std::lower_bound(a.listeners.begin(), a.listeners.end(), service_id,
                       [](const Listener& l, uint64_t wanted) { return l.service_id < wanted; });
  return at != a.listeners.end() && at->service_id == service_id ? &*at : nullptr;
}

Agent::Agent(const Config& config, Port& port)
    : state_(std::make_unique<AgentState>(config, port)) {}
Agent::~Agent() = default;

Status Agent::listen(uint64_t service_id, Observer& observer, uint64_t cookie) {
  std::vector<Listener>& all = state_->listeners;
  if (find_listener(*state_, service_id) != nullptr)
    return Error{EADDRINUSE, "the service id has a listener"};
  if (state_->config.shared && state_->port.is_served(service_id))
    return Error{EADDRINUSE, "another process of the adapter listens for the service id"};
  if (all.size() >= state_->config.most_listeners) return Error{ENOMEM, "too many listeners"};
  const auto at =
      std::upper_bound(all.begin(), all.end(), service_id,
                       [](uint64_t wanted, const Listener& l) { return wanted < l.service_id; });
  all.insert(at, {service_id, &observer, cookie});
  if (state_->config.shared) state_->port.serve(service_id, true);
  return Done{};
}

void Agent::unlisten(uint64_t service_id) noexcept {
  std::erase_if(state_->listeners, [&](const Listener& l) { return l.service_id == service_id; });
  if (state_->config.shared) state_->port.serve(service_id, false);
}

Status Agent::adopt(CommId id, Observer& observer, uint64_t cookie) noexcept {
  Connection* c = state_->ids.at(id);
  if (c == nullptr) return no_id;
  c->observer = &observer;
  c->cookie = cookie;
  return Done{};
}

Result<CommId> Agent::connect(const ConnectRequest& r, Observer& observer, uint64_t cookie,
                              uint64_t now) noexcept {
  AgentState& a = *state_;
  if (!fits(r)) return too_wide;
  if (!a.port.owns(r.route.sgid)) return not_ours;
  Connection* c = make_active(a, r.route, observer, cookie);
  if (c == nullptr) return no_place;
  c->service_id = r.service_id;
  c->transport = r.transport;
  c->local_qpn = r.qpn;
  c->rq_psn = r.starting_psn;
  c->path_mtu = r.path_mtu;
  c->responder_resources = r.responder_resources;
  c->initiator_depth = r.initiator_depth;
  c->retry_count = r.retry_count;
  c->ack_timeout = static_cast<uint8_t>(std::min(31, r.packet_life_time + 1));
  c->retries = r.max_cm_retries;
  // ib_send_cm_req(): there and back, and what the peer may take.
  c->timeout_ns = 2 * rough_ns(r.packet_life_time) + rough_ns(r.remote_cm_timeout);
  write_req(c->mad, names_of(a, *c), sender_of(a, *c), r);
  take_row(a, *c, *row_of(State::idle, Input::send_req), now);
  return a.ids.id_of(*c);
}

Status Agent::accept(CommId id, const AcceptRequest& r, uint64_t now) noexcept {
  AgentState& a = *state_;
  if (!fits(r)) return too_wide;
  auto [c, row, error] = find_row(a, id, Input::send_rep);
  if (row == nullptr) return error;
  c->local_qpn = r.qpn;
  c->rq_psn = r.starting_psn;
  c->responder_resources = r.responder_resources;
  c->initiator_depth = r.initiator_depth;
  const Names names{id.value(), c->remote_id, c->tid};
  write_rep(c->mad, names, sender_of(a, *c), r);
  take_row(a, *c, *row, now);
  return Done{};
}

Status Agent::establish(CommId id, std::span<const std::byte> private_data, uint64_t now) noexcept {
  AgentState& a = *state_;
  if (private_data.size() > most::rtu) return too_wide;
  auto [c, row, error] = find_row(a, id, Input::send_rtu);
  if (row == nullptr) return error;
  write_rtu(c->mad, names_of(a, *c), private_data);
  take_row(a, *c, *row, now);
  post(a, *c, now);
  return Done{};
}

Status Agent::note_established(CommId id, uint64_t now) noexcept {
  auto [c, row, error] = find_row(*state_, id, Input::note_established);
  if (c != nullptr && c->state == State::established)
    return Error{EISCONN, "the connection is established"};
  if (row == nullptr) return error;
  take_row(*state_, *c, *row, now);
  return Done{};
}

Status Agent::reject(CommId id, Reason reason, std::span<const std::byte> info,
                     std::span<const std::byte> private_data, uint64_t now) noexcept {
  AgentState& a = *state_;
  if (info.size() > most::ari || private_data.size() > most::rej) return too_wide;
  auto [c, row, error] = find_row(a, id, Input::send_rej);
  if (row == nullptr) return error;
  write_rej(c->mad, names_of(a, *c), {about_of(c->state), reason, info, private_data});
  post(a, *c, now);
  take_row(a, *c, *row, now);
  return Done{};
}

Status Agent::answer_later(CommId id, uint8_t service_timeout, uint64_t now) noexcept {
  AgentState& a = *state_;
  if (service_timeout > 31) return too_wide;
  auto [c, row, error] = find_row(a, id, Input::answer_later);
  if (row == nullptr) return error;
  const About about = about_of(c->state);
  take_row(a, *c, *row, now);
  write_mra(c->mad, names_of(a, *c), about, service_timeout);
  return Done{};
}

Status Agent::disconnect(CommId id, std::span<const std::byte> private_data,
                         uint64_t now) noexcept {
  if (private_data.size() > most::dreq) return too_wide;
  auto [c, row, error] = find_row(*state_, id, Input::send_dreq);
  if (row == nullptr) return error;
  begin_disconnect(*state_, *c, private_data, now);
  return Done{};
}

Status Agent::answer_disconnect(CommId id, std::span<const std::byte> private_data,
                                uint64_t now) noexcept {
  AgentState& a = *state_;
  if (private_data.size() > most::drep) return too_wide;
  auto [c, row, error] = find_row(a, id, Input::send_drep);
  if (row == nullptr) return error;
  write_drep(c->mad, names_of(a, *c), private_data);
  take_row(a, *c, *row, now);
  post(a, *c, now);
  return Done{};
}

Result<CommId> Agent::resolve(const ResolveRequest& r, Observer& observer, uint64_t cookie,
                              uint64_t now) noexcept {
  AgentState& a = *state_;
  if (!fits(r)) return too_wide;
  if (!a.port.owns(r.route.sgid)) return not_ours;
  Connection* c = make_active(a, r.route, observer, cookie);
  if (c == nullptr) return no_place;
  c->service_id = r.service_id;
  c->retries = r.max_cm_retries;
  c->timeout_ns = uint64_t{r.timeout_ms} * 1'000'000;
  write_sidr_req(c->mad, names_of(a, *c), r);
  take_row(a, *c, *row_of(State::idle, Input::send_sidr_req), now);
  return a.ids.id_of(*c);
}

Status Agent::answer_resolve(CommId id, const ResolveAnswer& r, uint64_t now) noexcept {
  AgentState& a = *state_;
  if (!fits(r)) return too_wide;
  auto [c, row, error] = find_row(a, id, Input::send_sidr_rep);
  if (row == nullptr) return error;
  write_sidr_rep(c->mad, names_of(a, *c), c->service_id, r);
  take_row(a, *c, *row, now);
  post(a, *c, now);
  return Done{};
}

void Agent::destroy(CommId id, uint64_t now) noexcept {
  AgentState& a = *state_;
  if (Connection* c = a.ids.at(id)) remove(a, *c, now);
}

Result<QpValues> Agent::qp_values(CommId id, QpStep step) const noexcept {
  const Connection* c = state_->ids.at(id);
  if (c == nullptr) return no_id;
  if (!reaches(c->state, step)) return wrong_state;
  QpValues v;
  v.route = c->route;
  v.transport = c->transport;
  v.dest_qpn = c->remote_qpn;
  v.rq_psn = c->rq_psn;
  v.sq_psn = c->sq_psn;
  v.path_mtu = c->path_mtu;
  v.max_rd_atomic = c->initiator_depth;
  v.max_dest_rd_atomic = c->responder_resources;
  v.timeout = c->ack_timeout;
  v.retry_count = c->retry_count;
  v.rnr_retry = c->rnr_retry;
  return v;
}

void Agent::handle(const Route& route, std::span<const std::byte> mad, uint64_t now) noexcept {
  receive(*state_, route, mad, now, false);
}

std::size_t Agent::tick(uint64_t now) noexcept {
  AgentState& a = *state_;
  std::size_t done = 0;
  a.blocked = false;
  for (std::size_t n = std::min(a.outbox.count(), letters_a_turn); n > 0; n--, done++) {
    const Letter letter = a.outbox.front();
    if (!letter.inward && !a.port.send(letter.route, letter.mad)) {
      a.blocked = true;
      a.try_again_ns = now + full_pause_ns;
      break;
    }
    a.outbox.pop();
    a.counts.sent++;
    if (!letter.inward) continue;
    Route back = letter.route;
    std::swap(back.sgid, back.dgid);
    receive(a, back, letter.mad, now, true);
  }
  // Behind the messages: an answer that has come is not late.
  done += run_timers(a, now);
  return done + (now < a.look_ns ? 0 : look_for_peers(a, now));
}

uint64_t Agent::deadline() const noexcept {
  const AgentState& a = *state_;
  const Connection* c = a.ids.first_due();
  const uint64_t timer = std::min(a.look_ns, c == nullptr ? ~uint64_t{0} : c->deadline_ns);
  if (a.outbox.count() == 0) return timer;
  return a.blocked ? std::min(timer, a.try_again_ns) : 0;
}

const Counts& Agent::counts() const noexcept {
  return state_->counts;
}

uint32_t Agent::ids() const noexcept {
  return state_->ids.used();
}

Result<State> Agent::state(CommId id) const noexcept {
  const Connection* c = state_->ids.at(id);
  if (c == nullptr) return no_id;
  return c->state;
}

}  // namespace kilim::vhca::cm
