// SPDX-License-Identifier: BSD-3-Clause
// Peers whose process has died. A kernel destroys the ids of a process that is killed, and sends
// what cm_destroy_id() sends (drivers/infiniband/core/ucma.c, ucma_close(); cm.c); here an adapter
// dies with its process, so who is left says it to itself, as if it had come. Adapter's lock held.
#include <algorithm>

#include "vhca/cm/agent_state.hh"

namespace kilim::vhca::cm {

namespace {

constexpr uint64_t look_every_ns = 250'000'000;
constexpr uint64_t of_each_place_ns = 20'000;  // of many ids less often: one look takes a while

// The message of the dead that ends what an id waits for; of states that wait for no peer none.
enum class Last : uint8_t { none, rej_of_req, rej, dreq, drep, sidr_rep };

Last last_word_in(State s) noexcept {
  switch (s) {
    case State::req_sent:
    case State::mra_req_rcvd:
      return Last::rej_of_req;
    case State::req_rcvd:
    case State::mra_req_sent:
    case State::rep_sent:
    case State::rep_rcvd:
    case State::mra_rep_sent:
    case State::mra_rep_rcvd:
      return Last::rej;
    case State::established:
      return Last::dreq;
    case State::dreq_sent:
      return Last::drep;
    case State::sidr_req_sent:
      return Last::sidr_rep;
    case State::idle:
    case State::dreq_rcvd:
    case State::timewait:
    case State::sidr_req_rcvd:
      return Last::none;
  }
  return Last::none;
}

// A request finds nobody who listens (cm.c, cm_req_handler()); all else is said by destroyed ids.
void write_last_word(const AgentState& a, const Connection& c, Last word, Mad& mad) noexcept {
  const uint32_t own = a.ids.id_of(c).value();
  const Names names{c.remote_id, own, c.tid};
  switch (word) {
    case Last::none:
      return;
    case Last::rej_of_req:
      return write_rej(mad, {0, own, c.tid}, {About::req, Reason::invalid_service_id, {}, {}});
    case Last::rej:
      return write_rej(mad, names, {About::other, Reason::consumer_defined, {}, {}});
    case Last::dreq:
      return write_dreq(mad, names, c.local_qpn, {});
    case Last::drep:
      return write_drep(mad, names, {});
    case Last::sidr_rep:
      return write_sidr_rep(mad, {0, own, c.tid}, c.service_id,
                            {SidrStatus::unsupported, 0, 0, {}, {}});
  }
}

// The second look in a row that misses it: the first may have come between two of its files.
bool has_gone(AgentState& a, Connection& c) noexcept {
  const bool missing = a.port.has_gone(c.process);
  const bool gone = missing && c.missed;
  c.missed = missing;
  return gone;
}

}  // namespace

void watch_peer(AgentState& a, Connection& c, uint64_t now) noexcept {
  if (last_word_in(c.state) == Last::none) return;
  if (c.process == 0) c.process = a.port.process_at(c.route, c.remote_qpn);
  // A request to another process of this adapter names no queue pair of it.
  if (c.process == 0 && c.asked_others) c.process = a.port.process_serving(c.service_id);
  if (c.process != 0) a.look_ns = std::min(a.look_ns, now + look_every_ns);
}

std::size_t look_for_peers(AgentState& a, uint64_t now) noexcept {
  std::size_t gone = 0;
  bool watched = false;
  a.look_ns = ~uint64_t{0};
  a.port.look_for_processes();
  for (uint32_t i = 0; i < a.ids.places(); i++) {
    Connection* c = a.ids.in_place(i);
    const Last word = c == nullptr || c->process == 0 ? Last::none : last_word_in(c->state);
    if (word == Last::none) continue;
    if (!has_gone(a, *c)) {
      watched = true;
      continue;
    }
    Mad mad;
    write_last_word(a, *c, word, mad);
    const Route back = c->route;
    c->process = 0;
    receive(a, back, mad, now, false);
    gone++;
  }
  if (watched)
    a.look_ns = std::min(a.look_ns, now + look_every_ns + a.ids.places() * of_each_place_ns);
  return gone;
}

}  // namespace kilim::vhca::cm
