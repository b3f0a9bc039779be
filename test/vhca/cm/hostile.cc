// SPDX-License-Identifier: BSD-3-Clause
// Part of cm_ut. Messages that nobody honest sends: nothing crashes, nothing grows, no connection
// of others ends, and who asks for what cannot be had is told so.
#include <random>

#include "cm_cases.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace kilim::vhca::test;
using kilim::test::Case;

namespace hostile_ut {
namespace {

// A connection that is established, of which the rest of the world is to stay away.
struct Bystander {
  explicit Bystander(uint32_t most_ids = 64) : net(most_ids) {
    must(net.right.agent.listen(service, net.right, 9));
    id = *net.left.agent.connect(request_to(net), net.left, 8, net.now);
    net.settle();
    peer = net.right.events[0].id;
    must(net.right.agent.accept(peer, acceptance(), net.now));
    net.settle();
    must(net.left.agent.establish(id, {}, net.now));
    net.settle();
    net.left.events.clear();
    net.right.events.clear();
    net.log.clear();
  }
  void check_untouched() {
    EQUAL(number_of(net.left.state(id)), number_of(State::established));
    EQUAL(number_of(net.right.state(peer)), number_of(State::established));
  }
  Net net;
  CommId id, peer;
};

Mad some_req(uint32_t local_id, uint32_t qpn, uint64_t service_id = service) {
  static const Net net;
  ConnectRequest r = request_to(net);
  r.qpn = qpn;
  r.service_id = service_id;
  Mad m;
  write_req(m, {local_id, 0, local_id}, {0x0200'00ff'fe00'0003u, 16, false}, r);
  return m;
}

Event rejection_in(const Net& net) {
  Event e;
  EQUAL_FATAL(net.log.empty(), false);
  EQUAL(number_of(attribute_of(net.last())), number_of(Attribute::rej));
  read_rej(message_of<RejMad>(net.last()), e);
  return e;
}

void a_datagram_of_another_length_is_none() {
  Bystander b;
  std::vector<std::byte> bytes(600);
  const Mad m = some_req(7, 7);
  std::copy(m.begin(), m.end(), bytes.begin());
  for (std::size_t n = 0; n < bytes.size(); n++) {
    if (n != mad_bytes) b.net.right.agent.handle(b.net.to(1), std::span(bytes).first(n), b.net.now);
  }
  EQUAL(b.net.right.agent.counts().malformed, 599);
  EQUAL(b.net.right.events.size(), 0);
  EQUAL(b.net.log.size(), 0);
  b.check_untouched();
}

void other_classes_versions_methods_and_attributes_are_none() {
  Bystander b;
  for (const std::size_t at : {0u, 1u, 2u, 3u, 16u, 17u}) {
    for (unsigned value = 0; value < 256; value++) {
      Mad m = some_req(7, 7);
      const unsigned right = static_cast<unsigned>(m[at]);
      m[at] = static_cast<std::byte>(value);
      if (value == right || (at == 17 && value >= 0x10 && value <= 0x1a)) continue;
      b.net.inject(b.net.right, m);
    }
  }
  EQUAL(b.net.right.agent.counts().malformed, 5 * 255 + 256 - 11);
  EQUAL(b.net.right.events.size(), 0);
  b.check_untouched();
}

void lengths_inside_a_message_are_cut_to_what_there_is() {
  Event e;
  Mad m;
  write_rej(m, {1, 2, 3}, {});
  m[24 + 9] = std::byte{0xfe};  // 127 bytes of information
  read_rej(message_of<RejMad>(m), e);
  EQUAL(e.info.count, 72);
  write_sidr_rep(m, {1, 2, 3}, service, {});
  m[24 + 5] = std::byte{0xff};
  read_sidr_rep(message_of<SidrRepMad>(m), e);
  EQUAL(e.info.count, 72);
}

// Every message, with each of the two ids wrong by one bit.
void forged_ids_touch_nobody() {
  Bystander b;
  const uint32_t local = b.id.value(), remote = b.peer.value();
  for (unsigned bit = 0; bit < 64; bit++) {
    const uint64_t flip = uint64_t{1} << bit;
    const Names n{remote ^ static_cast<uint32_t>(flip), local ^ static_cast<uint32_t>(flip >> 32),
                  9};
    Mad m[6];
    write_rej(m[0], n, {About::other, Reason::no_qp, {}, {}});
    write_rej(m[1], n, {About::req, Reason::stale_connection, {}, {}});
    write_dreq(m[2], n, 0x111, {});
    write_drep(m[3], n, {});
    write_rtu(m[4], n, {});
    write_rep(m[5], n, {0x0200'00ff'fe00'0002u, 16, false}, acceptance());
    for (const Mad& one : m) b.net.inject(b.net.left, one);
  }
  EQUAL(b.net.left.events.size(), 0);
  // Who ends what is not there is told that it is over, so that it ends there too.
  EQUAL(b.net.log.size(), 64);
  EQUAL(b.net.sent(Attribute::drep), 64);
  b.check_untouched();
}

void a_dreq_for_another_queue_pair_ends_nothing() {
  Bystander b;
  Mad m;
  write_dreq(m, {b.peer.value(), b.id.value(), 9}, 0x112, {});
  b.net.inject(b.net.left, m);
  EQUAL(b.net.left.events.size(), 0);
  EQUAL(b.net.log.size(), 0);
  b.check_untouched();
}

// What a REQ may ask for in vain, and the reason that it gets.
void requests_that_cannot_be_served_are_refused() {
  struct Wrong {
    std::size_t byte;  // behind the header
    uint8_t value;
    Reason reason;
  };
  for (const Wrong& w : {Wrong{15, 0x30, Reason::invalid_service_id},
                         {43, 0x04 | 20 << 3, Reason::consumer_defined},
                         {43, 0x06 | 20 << 3, Reason::consumer_defined},
                         {97, 1, Reason::invalid_alternate_gid},
                         {115, 1, Reason::invalid_alternate_gid}}) {
    Bystander b;
    Mad m = some_req(7, 7);
    m[24 + w.byte] = static_cast<std::byte>(w.value);
    b.net.inject(b.net.right, m);
    const Event e = rejection_in(b.net);
    CU_ASSERT(e.reason == w.reason);
    const auto rej = message_of<RejMad>(b.net.last());
    EQUAL(rej.remote_comm_id.host(), 7);
    EQUAL(rej.header.tid.host(), 7);
    EQUAL(rej::about::get(rej), 0);
    const bool gid = w.reason == Reason::invalid_alternate_gid;
    EQUAL(e.info.count, gid ? 16 : 0);
    if (gid) EQUAL(std::memcmp(e.info.bytes.data(), gid_of(2).data(), 16), 0);
    EQUAL(b.net.right.events.size(), 0);
    EQUAL(b.net.right.agent.ids(), 1);
  }
}

// Linux looks at the packet's GID, and not at the one that the path names.
void requests_to_a_foreign_gid_are_forgotten() {
  Bystander b;
  Route back = b.net.to(1);
  back.sgid = gid_of(9);
  b.net.right.agent.handle(back, some_req(7, 7), b.net.now);
  Mad m;
  ResolveRequest r;
  r.service_id = service;
  write_sidr_req(m, {8, 0, 8}, r);
  b.net.right.agent.handle(back, m, b.net.now);
  EQUAL(b.net.right.agent.counts().unmatched, 2);
  EQUAL(b.net.log.size(), 0);
  m = some_req(7, 7);
  m[24 + 87] = std::byte{9};
  b.net.inject(b.net.right, m);
  EQUAL_FATAL(b.net.right.events.size(), 1);
  CU_ASSERT(b.net.right.events[0].route.sgid == gid_of(2));
}

void an_unknown_service_for_datagrams_is_refused() {
  Net net;
  ResolveRequest r;
  r.service_id = 1;
  r.route = net.to(2);
  const CommId id = *net.left.agent.resolve(r, net.left, 8, net.now);
  net.settle();
  EQUAL(number_of(net.left.last(id)), number_of(EventKind::sidr_answer));
  CU_ASSERT(net.left.events[0].sidr_status == SidrStatus::unsupported);
  EQUAL(net.right.agent.ids(), 0);
}

// Alternate paths: over RoCE the kernel forgets LAP and APR (cm_lap_handler()).
void alternate_paths_are_forgotten() {
  Bystander b;
  Mad m;
  write_rtu(m, {b.peer.value(), b.id.value(), 9}, {});
  for (const Attribute a : {Attribute::lap, Attribute::apr}) {
    m[17] = static_cast<std::byte>(a);
    b.net.inject(b.net.left, m);
  }
  EQUAL(b.net.left.agent.counts().refused, 2);
  EQUAL(b.net.log.size(), 0);
  b.check_untouched();
}

// A hundred thousand requests that nobody goes on with: 65 536 find room, the others are told that
// there is none, and the connection that was there lives. When they are destroyed, all is free.
void a_flood_of_requests_is_bounded() {
  constexpr uint32_t places = 1 << 16, flood = 100'000;
  Bystander b(places);
  std::size_t no_room = 0;
  b.net.fate = [&](const Flying& f, std::size_t) {
    Event e;
    read_rej(message_of<RejMad>(f.mad), e);
    no_room += attribute_of(f.mad) == Attribute::rej && e.reason == Reason::no_resources ? 1 : 0;
    b.net.log.clear();
    return 0;
  };
  for (uint32_t i = 1; i <= flood; i++) b.net.inject(b.net.right, some_req(i, i & 0xffffff));
  EQUAL(b.net.right.agent.ids(), places);
  EQUAL(b.net.right.events.size(), places - 1);
  EQUAL(no_room, flood - (places - 1));
  b.check_untouched();
  // Copies of those that were taken are known.
  const uint64_t known = b.net.right.agent.counts().duplicates;
  for (uint32_t i = 1; i < places; i += 1000) b.net.inject(b.net.right, some_req(i, i));
  EQUAL(b.net.right.agent.counts().duplicates - known, 66);
  for (const Event& e : b.net.right.events) b.net.right.agent.destroy(e.id, b.net.now);
  EQUAL(b.net.right.agent.ids(), 1);
  // Ids that were freed are not given again soon: the old ones name nobody.
  b.net.right.hook = [](const Event&) { return Answer::taken; };
  const CommId before = b.net.right.events[0].id;
  b.net.inject(b.net.right, some_req(flood + 1, 5));
  EQUAL(b.net.right.agent.ids(), 2);
  EQUAL(b.net.right.state(before).has_value(), false);
  b.check_untouched();
}

// Any bytes behind a right header, from anybody, between the steps of honest connections.
void noise_ends_nothing() {
  Bystander b;
  std::mt19937 rng(11);
  b.net.fate = [&](const Flying&, std::size_t) {
    b.net.log.clear();
    return 0;
  };
  for (int i = 0; i < 200'000; i++) {
    Mad m = some_req(7, 7);
    for (std::size_t at = 24; at < m.size(); at += 4) {
      const auto word = static_cast<uint32_t>(rng());
      std::memcpy(&m[at], &word, sizeof(word));
    }
    m[17] = static_cast<std::byte>(0x10 + rng() % 11);
    if (rng() % 2 == 0) std::fill(m.begin() + 24, m.begin() + 32, std::byte{0});
    b.net.inject(b.net.right, m);
    b.net.right.events.clear();
  }
  b.check_untouched();
  EQUAL(b.net.right.agent.ids(), 1);
}

constexpr Case all[] = {
    {"a datagram of another length is none", a_datagram_of_another_length_is_none},
    {"other classes, versions, methods and attributes are none",
     other_classes_versions_methods_and_attributes_are_none},
    {"lengths inside a message are cut to what there is",
     lengths_inside_a_message_are_cut_to_what_there_is},
    {"forged ids touch nobody", forged_ids_touch_nobody},
    {"a DREQ for another queue pair ends nothing", a_dreq_for_another_queue_pair_ends_nothing},
    {"requests that cannot be served are refused", requests_that_cannot_be_served_are_refused},
    {"requests to a foreign GID are forgotten", requests_to_a_foreign_gid_are_forgotten},
    {"an unknown service for datagrams is refused", an_unknown_service_for_datagrams_is_refused},
    {"alternate paths are forgotten", alternate_paths_are_forgotten},
    {"a flood of requests is bounded", a_flood_of_requests_is_bounded},
    {"noise ends nothing", noise_ends_nothing},
};

}  // namespace
}  // namespace hostile_ut

namespace kilim::vhca::test {
std::span<const Case> hostile_cases() {
  return hostile_ut::all;
}
}  // namespace kilim::vhca::test
