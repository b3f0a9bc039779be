// SPDX-License-Identifier: BSD-3-Clause
// Part of cm_ut. Whole connections, from REQ to time wait, over a network that loses, doubles and
// turns round: each side hears of each step once, and nothing is left behind.
#include <random>

#include "cm_cases.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace handshake_ut {
namespace {

void a_connection_takes_five_messages() {
  Couple c;
  c.net.run_for(second);
  EQUAL(c.connected(), true);
  EQUAL(c.net.log.size(), 3);
  c.end();
  EQUAL(c.net.log.size(), 5);
  EQUAL(c.net.sent(Attribute::dreq), 1);
  EQUAL(c.net.sent(Attribute::drep), 1);
  c.check_ended();
}

// The first copy of each of the five messages does not arrive, or arrives twice.
void with_each_message(int copies) {
  for (const Attribute a :
       {Attribute::req, Attribute::rep, Attribute::rtu, Attribute::dreq, Attribute::drep}) {
    Couple c;
    bool done = false;
    c.net.fate = [&](const Flying& f, std::size_t) {
      return attribute_of(f.mad) == a && !std::exchange(done, true) ? copies : 1;
    };
    // The REQ was sent before there was a fate.
    if (a == Attribute::req) {
      done = true;
      if (copies == 0) c.net.air.clear();
      if (copies == 2) c.net.air.push_back(c.net.air.front());
    }
    c.net.run_for(100 * second);
    EQUAL(c.connected(), true);
    c.end();
    EQUAL(done, true);
    c.check_ended();
  }
}

void any_message_may_be_lost() {
  with_each_message(0);
}
void any_message_may_come_twice() {
  with_each_message(2);
}

// A message stays in the network until the rest of the connection's life is over.
void any_message_may_come_again_much_later() {
  for (std::size_t which = 0; which < 5; which++) {
    Couple c;
    c.net.run_for(second);
    c.end();
    EQUAL_FATAL(c.net.log.size(), 5);
    c.net.left.agent.destroy(c.id, c.net.now);
    c.net.right.agent.destroy(c.peer, c.net.now);
    c.net.left.events.clear();
    c.net.right.events.clear();
    const Flying late = c.net.log[which];
    c.net.inject(c.net.host(static_cast<uint8_t>(3 - late.from)), late.mad);
    c.net.run_for(1000 * second);
    // A REQ is a new request for anybody who has forgotten the old one, and ends by time; a DREQ is
    // answered; all else is forgotten.
    const bool request = attribute_of(late.mad) == Attribute::req;
    EQUAL(c.net.right.events.empty(), !request);
    EQUAL(c.net.left.events.size(), 0);
    if (request)
      EQUAL(number_of(c.net.right.last(c.net.right.events[0].id)),
            number_of(EventKind::unreachable));
    if (attribute_of(late.mad) == Attribute::dreq) EQUAL(c.net.log.size(), 6);
  }
}

// Three of ten are lost, two of ten doubled, and what is under way is shuffled.
void connections_survive_a_bad_network() {
  const unsigned before = CU_get_number_of_failures();
  for (uint32_t seed = 0; seed < 400; seed++) {
    std::mt19937 rng(seed);
    Couple c;
    c.net.fate = [&](const Flying&, std::size_t) {
      const auto roll = rng() % 10;
      std::shuffle(c.net.air.begin(), c.net.air.end(), rng);
      return roll < 3 ? 0 : roll < 5 ? 2 : 1;
    };
    c.net.run_for(200 * second);
    EQUAL(c.connected(), true);
    c.end();
    c.check_ended();
    if (CU_get_number_of_failures() != before) {
      std::printf("  seed %u\n", seed);
      return;
    }
  }
}

void both_sides_may_end_it_at_once() {
  Couple c;
  c.net.run_for(second);
  must(c.net.left.agent.disconnect(c.id, {}, c.net.now));
  must(c.net.right.agent.disconnect(c.peer, {}, c.net.now));
  c.net.left.hook = [&](const Event& e) {
    if (e.kind == EventKind::disconnect)
      must(c.net.left.agent.answer_disconnect(e.id, {}, c.net.now));
    return Answer::taken;
  };
  c.net.run_for(1000 * second);
  EQUAL(number_of(c.net.left.state(c.id)), number_of(State::idle));
  EQUAL(number_of(c.net.right.state(c.peer)), number_of(State::idle));
  EQUAL(c.net.left.count(EventKind::disconnect), 1);
  EQUAL(c.net.right.count(EventKind::disconnect), 1);
}

// Both ends are ids of one port: nothing of it reaches the wire.
void a_port_connects_to_itself() {
  Net net;
  Host& h = net.left;
  CommId passive;
  must(h.agent.listen(service, h, 9));
  h.hook = [&](const Event& e) {
    if (e.kind == EventKind::request) {
      passive = e.id;
      must(h.agent.accept(e.id, acceptance(), net.now));
    }
    if (e.kind == EventKind::response) must(h.agent.establish(e.id, {}, net.now));
    if (e.kind == EventKind::disconnect) must(h.agent.answer_disconnect(e.id, {}, net.now));
    return Answer::taken;
  };
  ConnectRequest r = request_to(net, 2);
  r.route.dgid = gid_of(1);
  const CommId active = *h.agent.connect(r, h, 8, net.now);
  EQUAL(h.events.size(), 0);
  EQUAL(h.agent.deadline(), 0);
  net.settle();
  EQUAL(number_of(h.state(active)), number_of(State::established));
  EQUAL(number_of(h.state(passive)), number_of(State::established));
  must(h.agent.disconnect(passive, {}, net.now));
  net.run_for(10 * second);
  EQUAL(number_of(h.state(active)), number_of(State::idle));
  EQUAL(number_of(h.state(passive)), number_of(State::idle));
  EQUAL(net.log.size(), 0);
}

void a_full_wire_delays_and_loses_nothing() {
  Couple c;
  c.net.settle();
  c.net.left.full = true;
  must(c.net.left.agent.disconnect(c.id, {}, c.net.now));
  EQUAL(c.net.sent(Attribute::dreq), 0);
  EQUAL(c.net.left.agent.tick(c.net.now), 0);
  const uint64_t again = c.net.left.agent.deadline();
  CU_ASSERT(again > c.net.now);
  CU_ASSERT(again <= c.net.now + second / 1000);
  c.net.left.full = false;
  c.net.now = again;
  c.net.settle();
  EQUAL(c.net.sent(Attribute::dreq), 1);
  EQUAL(number_of(c.net.left.last(c.id)), number_of(EventKind::disconnected));
}

void a_rejection_brings_its_reason_and_its_data() {
  Net net;
  must(net.right.agent.listen(service, net.right, 9));
  const CommId id = *net.left.agent.connect(request_to(net), net.left, 8, net.now);
  net.settle();
  must(net.right.agent.reject(net.right.events[0].id, Reason::no_qp, bytes_of("why"),
                              bytes_of("sorry"), net.now));
  net.settle();
  EQUAL_FATAL(net.left.events.size(), 1);
  const Event& e = net.left.events[0];
  EQUAL(e.kind, EventKind::rejected);
  EQUAL(e.id, id);
  EQUAL(e.reason, Reason::no_qp);
  // Who has not answered the REQ has no id for the peer (cm_format_rej()).
  EQUAL(message_of<RejMad>(net.last()).local_comm_id.host(), 0);
  EQUAL(message_of<RejMad>(net.last()).remote_comm_id.host(), id.value());
  EQUAL(e.info.count, 3);
  EQUAL(std::memcmp(e.info.bytes.data(), "why", 3), 0);
  EQUAL(e.private_data.count, 148);
  EQUAL(std::memcmp(e.private_data.bytes.data(), "sorry", 6), 0);
}

void what_the_observer_says_to_a_request_is_done() {
  for (const Answer answer : {Answer::forgotten, Answer::refused}) {
    Net net;
    must(net.right.agent.listen(service, net.right, 9));
    net.right.answer = answer;
    const CommId id = *net.left.agent.connect(request_to(net), net.left, 8, net.now);
    net.settle();
    EQUAL(net.right.agent.ids(), 0);
    if (answer == Answer::refused) {
      EQUAL(number_of(net.left.last(id)), number_of(EventKind::rejected));
      CU_ASSERT(net.left.events[0].reason == Reason::consumer_defined);
      continue;
    }
    EQUAL(net.left.events.size(), 0);
    net.right.answer = Answer::taken;  // the next copy finds room
    net.run_for(10 * second);
    EQUAL(net.right.events.size(), 2);
    EQUAL(number_of(net.right.state(net.right.events[1].id)), number_of(State::req_rcvd));
  }
}

void an_observer_may_destroy_what_it_is_told_of() {
  Couple c;
  c.net.right.hook = [&](const Event& e) {
    c.net.right.agent.destroy(e.id, c.net.now);
    return Answer::refused;
  };
  c.net.run_for(second);
  EQUAL(number_of(c.net.left.last(c.id)), number_of(EventKind::rejected));
  EQUAL(c.net.sent(Attribute::rej), 1);
  EQUAL(c.net.right.agent.ids(), 0);
}

// Who is destroyed while it asks tells so by its GUID: the peer's id is not known yet.
void a_request_that_is_withdrawn_reaches_who_was_asked() {
  Net net;
  must(net.right.agent.listen(service, net.right, 9));
  const CommId id = *net.left.agent.connect(request_to(net), net.left, 8, net.now);
  net.settle();
  net.left.agent.destroy(id, net.now);
  net.settle();
  const CommId peer = net.right.events[0].id;
  EQUAL(number_of(net.right.last(peer)), number_of(EventKind::rejected));
  CU_ASSERT(net.right.events.back().reason == Reason::timeout);
  EQUAL(number_of(net.right.state(peer)), number_of(State::idle));
}

// The queue pair of a connection is in a new one: the peer has forgotten the old one.
void a_stale_connection_is_ended_and_the_new_one_refused() {
  Couple c;
  c.net.run_for(second);
  const CommId old = c.peer;
  Net later;  // the same host, begun again
  ConnectRequest r = request_to(later);
  Mad m;
  write_req(m, {0x5555, 0, 1}, {0x0200'00ff'fe00'0001u, 16, false}, r);
  c.net.fate = [](const Flying&, std::size_t) { return 0; };
  c.net.inject(c.net.right, m);
  EQUAL(number_of(c.net.right.state(old)), number_of(State::dreq_sent));
  EQUAL(c.net.sent(Attribute::rej), 1);
  EQUAL(c.net.sent(Attribute::dreq), 1);
  const Mad& rej = c.net.log[c.net.log.size() - 2].mad;
  Event e;
  read_rej(message_of<RejMad>(rej), e);
  CU_ASSERT(e.reason == Reason::stale_connection);
  EQUAL(message_of<RejMad>(rej).remote_comm_id.host(), 0x5555);
}

void a_unicast_service_is_resolved() {
  Net net;
  must(net.right.agent.listen(service, net.right, 9));
  ResolveRequest r;
  r.service_id = service;
  r.route = net.to(2);
  r.private_data = bytes_of("who");
  const CommId id = *net.left.agent.resolve(r, net.left, 8, net.now);
  net.settle();
  EQUAL_FATAL(net.right.events.size(), 1);
  const Event& asked = net.right.events[0];
  EQUAL(asked.kind, EventKind::sidr_request);
  EQUAL(asked.cookie, 9);
  EQUAL(asked.service_id, service);
  EQUAL(std::memcmp(asked.private_data.bytes.data(), "who", 4), 0);
  must(net.right.agent.answer_resolve(asked.id, {SidrStatus::success, 0x333, 0x1234567, {}, {}},
                                      net.now));
  net.settle();
  EQUAL_FATAL(net.left.events.size(), 1);
  const Event& e = net.left.events[0];
  EQUAL(e.kind, EventKind::sidr_answer);
  EQUAL(e.sidr_status, SidrStatus::success);
  EQUAL(e.id, id);
  EQUAL(e.cookie, 8);
  EQUAL(e.remote_qpn, 0x333);
  EQUAL(e.remote_qkey, 0x1234567);
  EQUAL(net.left.agent.deadline(), UINT64_MAX);
}

void private_data_goes_along_with_every_step() {
  Couple c;
  c.net.left.hook = [&](const Event& e) {
    if (e.kind == EventKind::response)
      must(c.net.left.agent.establish(e.id, bytes_of("ready"), c.net.now));
    return Answer::taken;
  };
  c.net.right.hook = [&](const Event& e) {
    AcceptRequest r = acceptance();
    r.private_data = bytes_of("come in");
    if (e.kind == EventKind::request) must(c.net.right.agent.accept(e.id, r, c.net.now));
    if (e.kind == EventKind::disconnect)
      must(c.net.right.agent.answer_disconnect(e.id, bytes_of("so long"), c.net.now));
    return Answer::taken;
  };
  c.net.run_for(second);
  must(c.net.left.agent.disconnect(c.id, bytes_of("bye"), c.net.now));
  c.net.settle();
  const auto says = [](const Event& e, const char* text) {
    return std::memcmp(e.private_data.bytes.data(), text, std::strlen(text) + 1) == 0;
  };
  EQUAL_FATAL(c.net.left.events.size(), 2);
  EQUAL_FATAL(c.net.right.events.size(), 3);
  CU_ASSERT(says(c.net.left.events[0], "come in"));
  CU_ASSERT(says(c.net.right.events[1], "ready"));
  CU_ASSERT(says(c.net.right.events[2], "bye"));
  CU_ASSERT(says(c.net.left.events[1], "so long"));
}

constexpr Case all[] = {
    {"a connection takes five messages", a_connection_takes_five_messages},
    {"any message may be lost", any_message_may_be_lost},
    {"any message may come twice", any_message_may_come_twice},
    {"any message may come again much later", any_message_may_come_again_much_later},
    {"connections survive a bad network", connections_survive_a_bad_network},
    {"both sides may end it at once", both_sides_may_end_it_at_once},
    {"a port connects to itself", a_port_connects_to_itself},
    {"a full wire delays and loses nothing", a_full_wire_delays_and_loses_nothing},
    {"a rejection brings its reason and its data", a_rejection_brings_its_reason_and_its_data},
    {"what the observer says to a request is done", what_the_observer_says_to_a_request_is_done},
    {"an observer may destroy what it is told of", an_observer_may_destroy_what_it_is_told_of},
    {"a request that is withdrawn reaches who was asked",
     a_request_that_is_withdrawn_reaches_who_was_asked},
    {"a stale connection is ended and the new one refused",
     a_stale_connection_is_ended_and_the_new_one_refused},
    {"a service is resolved for datagrams", a_unicast_service_is_resolved},
    {"private data goes along with every step", private_data_goes_along_with_every_step},
};

}  // namespace
}  // namespace handshake_ut

namespace kilim::vhca::test {
std::span<const Case> handshake_cases() {
  return handshake_ut::all;
}
}  // namespace kilim::vhca::test
