// SPDX-License-Identifier: BSD-3-Clause
// Part of cm_ut. When messages leave: retries, many timers, a wire that was full.
#include <random>

#include "cm_cases.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace timing_ut {
namespace {

// Retries are counted, and come at the times that REQ and REP agree on (ib_send_cm_req()).
void a_request_without_answer_is_sent_again_and_given_up() {
  Net net;
  net.fate = [](const Flying&, std::size_t) { return 0; };
  ConnectRequest r = request_to(net);
  r.packet_life_time = 16;   // 256 ms
  r.remote_cm_timeout = 18;  // 1024 ms
  const CommId id = *net.left.agent.connect(r, net.left, 8, net.now);
  const uint64_t begun = net.now;
  const uint64_t period = 1'536'000'000;
  EQUAL(net.left.agent.deadline(), begun + period);
  net.run_for(4 * period - 1);
  EQUAL(net.log.size(), 4);
  EQUAL(net.left.events.size(), 0);
  net.run_for(1);
  EQUAL(net.log.size(), 4);
  EQUAL(number_of(net.left.last(id)), number_of(EventKind::unreachable));
  EQUAL(net.left.events[0].cookie, 8);
  EQUAL(net.left.agent.counts().retries, 3);
  for (const Flying& f : net.log) CU_ASSERT(f.mad == net.log[0].mad);
}

// Two hundred ids whose patience ends at different times, some of which are destroyed before.
void timers_run_out_in_their_order() {
  Net net(256);
  std::mt19937 rng(3);
  net.fate = [](const Flying&, std::size_t) { return 0; };
  std::vector<CommId> ids;
  std::vector<uint64_t> ends(200);
  for (uint32_t i = 0; i < ends.size(); i++) {
    ResolveRequest r;
    r.service_id = service;
    r.route = net.to(2);
    r.max_cm_retries = 0;
    r.timeout_ms = static_cast<uint32_t>(1 + rng() % 1000);
    ends[i] = net.now + uint64_t{r.timeout_ms} * 1'000'000;
    ids.push_back(*net.left.agent.resolve(r, net.left, i, net.now));
  }
  std::vector<bool> gone(ends.size());
  for (std::size_t i = 0; i < ends.size(); i += 3) {
    net.left.agent.destroy(ids[i], net.now);
    gone[i] = true;
  }
  std::size_t wrong = 0;
  net.left.hook = [&](const Event& e) {
    wrong += ends[e.cookie] != net.now || gone[e.cookie] ? 1 : 0;
    gone[e.cookie] = true;
    return Answer::taken;
  };
  net.run_for(2 * second);
  EQUAL(wrong, 0);
  EQUAL(net.left.events.size(), 133);
  EQUAL(net.left.agent.deadline(), UINT64_MAX);
}

// What waits in the outbox leaves before what comes later, whatever each is for.
void messages_leave_in_their_order() {
  Net net;
  net.left.full = true;
  for (uint32_t qpn = 1; qpn <= 5; qpn++) {
    ConnectRequest r = request_to(net);
    r.qpn = qpn;
    CU_ASSERT(net.left.agent.connect(r, net.left, qpn, net.now).ok());
    net.left.full = false;
  }
  net.settle();
  EQUAL_FATAL(net.log.size(), 10);  // and a REJ for each
  uint32_t qpn = 1;
  for (const Flying& f : net.log) {
    if (f.from == 1) EQUAL(req::qpn::get(message_of<ReqMad>(f.mad)), qpn++);
  }
}

// One side is killed behind each of the five messages, so nothing comes or arrives any more: for
// either side the other one is the dead. Who is left ends by its own timers, and says so once.
void a_peer_may_be_killed_at_any_message() {
  for (std::size_t heard = 0; heard < 5; heard++) {
    Couple c;
    c.net.fate = [heard](const Flying&, std::size_t number) { return number < heard ? 1 : 0; };
    if (heard == 0) c.net.air.clear();  // the REQ was sent before there was a fate
    c.net.run_for(1000 * second);
    // Their queue pairs have run out of retries by now.
    for (auto [host, id] : {std::pair{&c.net.left, c.id}, std::pair{&c.net.right, c.peer}})
      if (host->state(id) == State::established) must(host->agent.disconnect(id, {}, c.net.now));
    c.net.run_for(1000 * second);
    const EventKind left = heard < 2 ? EventKind::unreachable : EventKind::timewait_over;
    const EventKind right = heard < 3 ? EventKind::unreachable : EventKind::timewait_over;
    EQUAL(number_of(c.net.left.last(c.id)), number_of(left));
    if (heard != 0) EQUAL(number_of(c.net.right.last(c.peer)), number_of(right));
    EQUAL(c.net.left.count(left), 1);
    EQUAL(c.net.right.count(right), heard == 0 ? 0 : 1);
    c.net.left.agent.destroy(c.id, c.net.now);
    if (heard != 0) c.net.right.agent.destroy(c.peer, c.net.now);
    c.net.settle();
    EQUAL(c.net.left.agent.ids() + c.net.right.agent.ids(), 0);
    EQUAL(c.net.left.agent.deadline(), UINT64_MAX);
    EQUAL(c.net.right.agent.deadline(), UINT64_MAX);
  }
}

// Two agents that are one adapter hear each other's messages, and each its own.
void a_shared_adapter_connects_once() {
  Couple c(15, true);
  c.net.settle();
  CU_ASSERT(c.connected());
  EQUAL(c.net.left.agent.counts().refused + c.net.right.agent.counts().refused, 0);
  CU_ASSERT(!c.net.left.agent.listen(service, c.net.left, 0).ok());  // the port is taken
  c.end();
  c.check_ended();
}

// Who asks refuses himself if nobody listens; who neither asks nor listens says nothing, not even
// of a DREQ that names none of his ids.
void a_shared_adapter_refuses_once() {
  Net net(64, true);
  const CommId id = *net.left.agent.connect(request_to(net), net.left, 8, net.now);
  net.settle();
  EQUAL(number_of(net.left.last(id)), number_of(EventKind::rejected));
  EQUAL(net.left.events.size(), 1);
  EQUAL(net.right.agent.counts().refused, 0);
  net.left.agent.destroy(id, net.now);
  net.settle();
  const std::size_t before = net.log.size();
  Mad dreq;
  write_dreq(dreq, {0x1234, 0x5678, 9}, 0x111, {});
  net.inject(net.right, dreq);
  net.settle();
  EQUAL(net.log.size(), before);
}

// Who listens behind a request that nobody else listened for does not hear it.
void a_refused_request_of_a_shared_adapter_is_over() {
  Net net(64, true);
  const CommId id = *net.left.agent.connect(request_to(net), net.left, 8, net.now);
  must(net.right.agent.listen(service, net.right, 9));
  net.settle();
  EQUAL(number_of(net.left.last(id)), number_of(EventKind::rejected));
  EQUAL(net.right.count(EventKind::request), 0);
  EQUAL(net.right.agent.ids(), 0);
}

constexpr uint64_t two_looks = 600'000'000;

// A request whose listener's process is killed meanwhile: it is refused as where nobody listens.
void a_request_to_a_process_that_died_is_refused() {
  Net net;
  Host& left = net.left;
  left.peers_process = left.dead = 7;
  net.fate = [](const Flying&, std::size_t) { return 0; };
  const CommId asks = *left.agent.connect(request_to(net), left, 8, net.now);
  net.run_for(two_looks);
  EQUAL(number_of(left.last(asks)), number_of(EventKind::rejected));
  EQUAL(number_of(left.events.back().reason), number_of(Reason::invalid_service_id));
  ResolveRequest datagram;
  datagram.service_id = service;
  datagram.route = net.to(2);
  const CommId resolves = *left.agent.resolve(datagram, left, 8, net.now);
  net.run_for(two_looks);
  EQUAL(number_of(left.last(resolves)), number_of(EventKind::sidr_answer));
  EQUAL(number_of(left.events.back().sidr_status), number_of(SidrStatus::unsupported));
}

// Another process of the adapter is known to the one that asks by what it serves alone.
void a_request_to_a_process_of_the_adapter_that_died_is_refused() {
  Net net(64, true);
  Host& left = net.left;
  must(net.right.agent.listen(service, net.right, 9));
  left.servers_process = 7;
  net.fate = [](const Flying&, std::size_t) { return 0; };
  const CommId asks = *left.agent.connect(request_to(net), left, 8, net.now);
  net.run_for(two_looks);
  CU_ASSERT(!left.last(asks).has_value());  // it lives
  left.dead = 7;
  net.run_for(two_looks);
  CU_ASSERT_FATAL(left.last(asks).has_value());
  EQUAL(number_of(left.last(asks)), number_of(EventKind::rejected));
  EQUAL(number_of(left.events.back().reason), number_of(Reason::invalid_service_id));
}

// What the kernel would have sent for the dead (cm_destroy_id()), or answered (cm_issue_drep()):
// before the RTU, established, and while one end asks for the end.
void a_connection_ends_with_its_peers_process() {
  for (const int until : {0, 1, 2}) {
    Couple c;
    c.net.left.peers_process = c.net.right.peers_process = 7;
    if (until == 0) c.net.fate = [](const Flying&, std::size_t n) { return n < 2 ? 1 : 0; };
    Host& left = c.net.left;
    c.net.settle();
    if (until == 0) {
      c.net.right.dead = 7;
      c.net.run_for(two_looks);
      EQUAL(number_of(c.net.right.last(c.peer)), number_of(EventKind::rejected));
      continue;
    }
    CU_ASSERT_FATAL(c.connected());
    c.net.fate = [](const Flying&, std::size_t) { return 0; };
    if (until == 2) must(left.agent.disconnect(c.id, {}, c.net.now));
    left.dead = 7;
    c.net.run_for(two_looks);
    EQUAL(number_of(left.last(c.id)),
          number_of(until == 1 ? EventKind::disconnect : EventKind::disconnected));
    if (until == 1) must(left.agent.answer_disconnect(c.id, {}, c.net.now));
    const std::size_t looks = left.looks;
    c.net.run_for(10 * second);
    EQUAL(left.looks, looks);  // nobody is left to look for
  }
}

// One look may come between two files, and a peer of which nothing is known is not looked for.
void a_peer_is_missed_twice_before_it_is_dead() {
  Couple c;
  c.net.left.peers_process = 7;
  c.net.settle();
  Host& left = c.net.left;
  for (int i = 0; i < 8; i++) {
    left.dead = i % 2 == 0 ? 7 : 0;
    const std::size_t looks = left.looks;
    for (int n = 0; n < 100 && left.looks == looks; n++) (void)c.net.step(c.net.now + second);
  }
  CU_ASSERT_TRUE(c.connected());
  EQUAL(c.net.right.looks, 0);
  EQUAL(left.count(EventKind::disconnect), 0);
}

constexpr Case all[] = {
    {"a request to a process that died is refused", a_request_to_a_process_that_died_is_refused},
    {"a request to a process of the adapter that died is refused",
     a_request_to_a_process_of_the_adapter_that_died_is_refused},
    {"a connection ends with its peer's process", a_connection_ends_with_its_peers_process},
    {"a peer is missed twice before it is dead", a_peer_is_missed_twice_before_it_is_dead},
    {"a shared adapter connects once", a_shared_adapter_connects_once},
    {"a shared adapter refuses once", a_shared_adapter_refuses_once},
    {"a refused request of a shared adapter is over",
     a_refused_request_of_a_shared_adapter_is_over},
    {"a peer may be killed at any message", a_peer_may_be_killed_at_any_message},
    {"a request without answer is sent again and given up",
     a_request_without_answer_is_sent_again_and_given_up},
    {"timers run out in their order", timers_run_out_in_their_order},
    {"messages leave in their order", messages_leave_in_their_order},
};

}  // namespace
}  // namespace timing_ut

namespace kilim::vhca::test {
std::span<const Case> timing_cases() {
  return timing_ut::all;
}
}  // namespace kilim::vhca::test
