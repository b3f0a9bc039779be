// SPDX-License-Identifier: BSD-3-Clause
// Part of eth_ut. Frames that a hash spreads over queues of their own: the straight way and the
// general one do the same.
#include "eth_ways_fixture.hh"
#include "vhca/ethernet/plain_taking.hh"

using namespace kilim;
using namespace kilim::test;

namespace eth_spread_ut {
namespace {

using kilim::test::Bytes;  // not kilim::Bytes, a number

// Receive queues of their own behind hashes: by kinds of packets, with rules that look deeper now
// and then. Two of the four have one completion queue; one takes its tags off.
struct Spread {
  Spread(Rig& rig, unsigned seed) : r(rig) {
    for (uint32_t i = 0; i < 4; i++) make_queue(i);
    const uint32_t table = *create_rqt(*r.hca, {{rqns[0], rqns[1], rqns[2], rqns[3]}});
    const uint32_t single = *create_rqt(*r.hca, {{rqns[seed % 4]}});
    for (uint8_t version : {uint8_t{4}, uint8_t{6}})
      for (uint8_t protocol : {uint8_t{6}, uint8_t{17}, uint8_t{0}}) {
        TirSpec t;
        t.rqt = table;
        t.ip_version = version;
        t.fields = hash_field::src_ip | hash_field::dst_ip;
        t.l4_protocol = protocol;
        if (protocol != 0) t.fields |= hash_field::src_port | hash_field::dst_port;
        // Some of them by half of the fields.
        if (seed % 3 == 1)
          t.fields &= static_cast<uint8_t>(hash_field::dst_ip | hash_field::src_port);
        if (protocol != 0 && (t.fields & 12) == 0) t.l4_protocol = 0;
        unsigned next = seed + version * protocol;
        for (uint8_t& b : t.key) b = static_cast<uint8_t>(next = next * 77 + 13);
        FlowSpec rule = everything();
        rule.priority = protocol == 0 ? 3 : 2;
        rule.ip_version = version;
        rule.l4_protocol = protocol;
        // In some runs everything of a version goes to the hash that knows UDP alone.
        if (seed % 2 == 0 && protocol == 17) rule.priority = 1, rule.l4_protocol = 0;
        add(t, rule);
      }
    FlowSpec rest = everything();
    rest.priority = 4;
    TirSpec t;
    t.rqt = single;
    add(t, rest);
  }
  void make_queue(uint32_t i) {
    q[i] = r.queue(i);
    std::memset(q[i].rq(), 0, 1024);
    record_store(record(i), be32{0});
    RqSpec s;
    s.pd = r.pd;
    s.cq = q[i == 3 ? 2 : i].cqn;
    s.buf = va(q[i].rq());
    s.record = va(record(i));
    s.wqes = ring_wqes;
    s.wqe_shift = 4;
    s.uidx = 0x40 + i;
    s.strip_vlan = i == 1;
    rqns[i] = *create_rq(*r.hca, s, &r.sink);
    EQUAL(modify_rq(*r.hca, rqns[i], {RqState::reset, RqState::ready}), 0);
  }
  void add(const TirSpec& t, const FlowSpec& rule) const {
    const uint32_t tirn = *create_tir(*r.hca, t, &r.sink);
    CU_ASSERT(create_flow_to_tir(*r.hca, tirn, rule).ok());
  }
  [[nodiscard]] be32* record(uint32_t i) const { return q[i].record() + 8; }
  void post(uint32_t i, std::size_t bytes) {
    const Bytes d = r.pointer(r.room(i * 8 + posted[i] % 8), bytes);
    std::memcpy(q[i].rq() + posted[i] % ring_wqes * 16, d.data(), 16);
    record_store(record(i), be32{++posted[i]});
  }
  void post(uint32_t i, Random& random) { post(i, below(random, 24) == 0 ? 64 : 4096); }
  // Like the others, but with an address that their key does not have.
  void post_nowhere(uint32_t i) {
    const be64 nowhere{va(strange.data()).value()};
    Bytes d = r.pointer(r.room(i * 8), 4096);
    std::memcpy(&d[8], &nowhere, sizeof nowhere);
    std::memcpy(q[i].rq() + posted[i] % ring_wqes * 16, d.data(), 16);
    record_store(record(i), be32{++posted[i]});
  }
  Rig& r;
  std::array<RawQueue, 4> q;
  std::array<uint32_t, 4> rqns{}, posted{};
  alignas(64) std::array<std::byte, 4096> strange{};
};

// Frames of a few flows, each with others of its own in between.
Bytes any_flow(Random& random) {
  Bytes b = any_frame(random);
  if (b.size() < 60) return b;
  b[5] = static_cast<std::byte>(below(random, 3));
  if (below(random, 3) != 0) b[29] = static_cast<std::byte>(below(random, 40));
  return b;
}

Trace run_spread(bool straight, unsigned seed) {
  Rig::straight = straight;
  Rig r;
  Rig::straight = true;
  Random random(seed);
  Spread s(r, seed);
  Trace t;
  FlowSpec deep = everything();
  deep.ip_version = 4;
  deep.ip.src[3] = 1;
  deep.ip_mask.src[3] = 1;
  deep.drops = true;
  uint32_t special = 0;
  for (int turn = 0; turn < 80; turn++) {
    if (turn == 30) special = *create_ending_flow(*r.hca, deep);
    if (turn == 45) EQUAL(destroy_flow(*r.hca, special), 0);
    if (turn == 66) s.post_nowhere(seed % 4);
    const bool crowded = turn >= 70;  // nobody takes entries, and a completion queue overruns
    const bool alike = turn % 3 == 0;
    for (uint32_t i = 0; i < 4; i++)
      for (unsigned n = crowded ? 8 : below(random, 6); n > 0; n--) s.post(i, random);
    const Bytes f = make_frame({.tcp = false, .payload = turn % 40u});
    for (unsigned n = crowded ? 48 : below(random, 16); n > 0; n--)
      r.far->send(alike ? any_like(random, f) : any_flow(random));
    r.run();
    for (std::size_t i = 0; i < 32; i++) t.received.emplace_back(r.room(i), r.room(i) + 4096);
    for (RawQueue& q : s.q)
      if (!crowded) note_entries(q, t);
  }
  for (RawQueue& q : s.q) note_entries(q, t);
  note_counts(r, t);
  t.counts.insert(t.counts.end(), r.sink.events.begin(), r.sink.events.end());
  return t;
}

void both_ways_spread_the_same() {
  for (unsigned seed = 1; seed <= 6; seed++) {
    const Trace a = run_spread(true, seed), b = run_spread(false, seed);
    EQUAL(a.counts, b.counts);
    CU_ASSERT(a.entries == b.entries);
    CU_ASSERT(a.received == b.received);
    CU_ASSERT(a.entries.size() > 400);
  }
}

// Receive WQEs of 64 bytes took short frames; the same ones do not take longer frames, of which
// others with more room have come in between.
void a_longer_frame_is_another_one() {
  Rig r;
  Spread s(r, 3);
  for (uint32_t i = 0; i < 4; i++)
    for (uint32_t n = 0; n < 12; n++) s.post(i, n == 6 || n == 7 ? 4096 : 64);
  for (const std::size_t payload : {std::size_t{18}, std::size_t{60}})
    for (int n = 0; n < 6; n++) r.far->send(make_frame({.tcp = false, .payload = payload}));
  r.run();
  uint32_t good = 0, bad = 0;
  for (RawQueue& q : s.q)
    for (prm::Cqe c = Rig::poll(q); opcode(c) != prm::CqeOpcode::invalid; c = Rig::poll(q))
      (opcode(c) == prm::CqeOpcode::resp_err ? bad : good)++;
  EQUAL(good, 8u);
  EQUAL(bad, 4u);
}

// A rule of a kind of packet does not take what another kind's memory says.
void kinds_of_one_header_are_told_apart() {
  Rig r;
  RawQueue a = r.queue(0), b = r.queue(1);
  FlowSpec udp = everything();
  udp.ip_version = 4;
  udp.l4_protocol = 17;
  CU_ASSERT(create_flow(*r.hca, a.qpn, udp).ok());
  FlowSpec rest = everything();
  rest.priority = 1;
  CU_ASSERT(create_flow(*r.hca, b.qpn, rest).ok());
  for (std::size_t i = 0; i < 8; i++) r.receive(i < 4 ? a : b, r.room(i), 2048);
  for (int i = 0; i < 3; i++) {
    r.far->send(make_frame({.tcp = false}));
    r.far->send(make_frame({.tcp = true}));
  }
  r.run();
  for (int i = 0; i < 3; i++) {
    EQUAL(opcode(Rig::poll(a)), recv_opcode);
    EQUAL(opcode(Rig::poll(b)), recv_opcode);
  }
  EQUAL(opcode(Rig::poll(a)), prm::CqeOpcode::invalid);
}

// UDP to port 7 goes to the one, to port 8 to the other.
void lead_ports(Rig& r, const RawQueue& seven, const RawQueue& eight) {
  FlowSpec udp = everything();
  udp.ip_version = 4;
  udp.l4_protocol = 17;
  udp.ports_mask.dst = 0xffff;
  udp.ports.dst = 7;
  CU_ASSERT(create_flow(*r.hca, seven.qpn, udp).ok());
  udp.ports.dst = 8;
  CU_ASSERT(create_flow(*r.hca, eight.qpn, udp).ok());
}

// Frames of one shape, which rules that look at ports send to two queues.
void ports_of_one_shape_are_told_apart() {
  Rig r;
  RawQueue a = r.queue(0), b = r.queue(1);
  lead_ports(r, a, b);
  for (std::size_t i = 0; i < 8; i++) r.receive(i < 4 ? a : b, r.room(i), 2048);
  for (const int port : {7, 8, 8, 7, 8}) {
    Bytes f = make_frame({.tcp = false});
    f[36] = std::byte{0};
    f[37] = static_cast<std::byte>(port);
    r.far->send(f);
  }
  r.run();
  for (int i = 0; i < 2; i++) EQUAL(opcode(Rig::poll(a)), recv_opcode);
  for (int i = 0; i < 3; i++) EQUAL(opcode(Rig::poll(b)), recv_opcode);
  EQUAL(opcode(Rig::poll(a)), prm::CqeOpcode::invalid);
}

// A row in which more queues take part than have a place in it at a time (Row::places).
void queues_that_make_room_lose_nothing() {
  constexpr uint32_t all = 11, rounds = 5;
  static_assert(all > ethernet::Row::places);
  Rig r;
  std::array<RawQueue, all> q;
  for (uint32_t i = 0; i < all; i++) {
    q[i] = r.queue(i);
    FlowSpec udp = everything();
    udp.ip_version = 4;
    udp.l4_protocol = 17;
    udp.ports_mask.dst = 0xffff;
    udp.ports.dst = static_cast<uint16_t>(7 + i);
    CU_ASSERT(create_flow(*r.hca, q[i].qpn, udp).ok());
    for (std::size_t k = 0; k < rounds; k++) r.receive(q[i], r.room(k), 2048);
  }
  for (uint32_t n = 0; n < all * rounds; n++) {
    // Now and then the same queue again.
    Bytes f = make_frame({.tcp = false});
    f[36] = std::byte{0};
    f[37] = static_cast<std::byte>(7 + n * 4 / 3 % all);
    r.far->send(f);
  }
  r.run();
  uint32_t came = 0;
  for (RawQueue& one : q) {
    uint32_t i = 0;
    for (prm::Cqe c = Rig::poll(one); opcode(c) != prm::CqeOpcode::invalid; c = Rig::poll(one)) {
      EQUAL(opcode(c), recv_opcode);
      EQUAL(c.wqe_counter.host(), i++);
    }
    came += i;
  }
  EQUAL(came, all * rounds - eth_port_counters(r.hca->eth, 1).rx_out_of_buffer);
  CU_ASSERT(came > all * (rounds - 1));
}

constexpr Case spreads[] = {
    {"a longer frame is another one", a_longer_frame_is_another_one},
    {"queues that make room lose nothing", queues_that_make_room_lose_nothing},
    {"both ways spread the same", both_ways_spread_the_same},
    {"kinds of one header are told apart", kinds_of_one_header_are_told_apart},
    {"ports of one shape are told apart", ports_of_one_shape_are_told_apart},
};

}  // namespace
}  // namespace eth_spread_ut

std::span<const kilim::test::Case> kilim::test::eth_spread_cases() {
  return eth_spread_ut::spreads;
}
