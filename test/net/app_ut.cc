// SPDX-License-Identifier: BSD-3-Clause
// kilim/detail/app: a program of two ports at the two ends of a cable, its lanes run by the test's
// thread. What a packet function sends, drops or cannot send is counted, and every buffer comes
// back.
#include <cstring>
#include <vector>

#include <rte_mbuf_core.h>
#include <rte_mbuf_ptype.h>

#include "../vhca/ethernet/tunnel_fixture.hh"
#include "app_cases.hh"
#include "case_tables.hh"
#include "kilim/detail/app/burst.hh"
#include "kilim/detail/app/frame.hh"
#include "two_ports_fixture.hh"
#include "ut.hh"

namespace app_ut {
namespace {

using namespace kilim;
using app::Burst;
using pool::Handle;

constexpr uint32_t near = 0, far = 1;

// What the packet function below saw and does.
struct Seen {
  uint32_t back = 0;       // packets that came back to `near`
  uint32_t wrong = 0;      // of them: out of order or on an unexpected lane
  uint32_t tagged = 0;     // with a tag of VLAN 7
  bool drops = false;      // `far` drops what it receives
  bool one_by_one = true;  // how `far` sends
  bool looks = false;      // `far` keeps side records and drops
  bool divides = false;    // `far` sends joined segments as segments
  uint32_t joined = 0;     // packets of several segments
  std::vector<pool::SideRecord> sides;
  std::vector<uint32_t> lanes_of_far;
};

void count(Seen& seen, Burst& b) noexcept {
  for (const Handle h : b.packets()) {
    uint32_t number;
    const std::byte tag[] = {std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{7}};
    const bool tagged = std::memcmp(b.bytes(h).data() + 12, tag, sizeof tag) == 0;
    seen.tagged += tagged;
    std::memcpy(&number, b.bytes(h).data() + (tagged ? 24 : 20), sizeof number);
    seen.wrong += number != seen.back++;
    b.drop(h);
  }
}

void divide(Seen& seen, Burst& b) noexcept {
  for (Handle h : b.packets()) {
    const bool joined = (b.side(h).flags & RTE_MBUF_F_RX_LRO) != 0;
    const pool::TxWord tx = b.side(h).tx;
    if (b.port() == near) {
      seen.back += joined ? (h.length - tx.headers + tx.mss - 1u) / tx.mss : 1;
      b.drop(h);
      continue;
    }
    seen.joined += joined;
    if (joined) b.ask(h, tx);
    b.send(far, h);
  }
}

void on_burst(void* context, Burst& b) noexcept {
  auto& seen = *static_cast<Seen*>(context);
  if (seen.divides) return divide(seen, b);
  if (b.port() == near) return count(seen, b);
  seen.lanes_of_far.push_back(b.lane());
  if (seen.looks)
    for (const Handle h : b.packets()) seen.sides.push_back(b.side(h));
  if (seen.drops || seen.looks) {
    for (const Handle h : b.packets()) b.drop(h);
  } else if (seen.one_by_one) {
    for (const Handle h : b.packets()) b.send(far, h);
  } else {
    b.send(far, b.packets()[0]);
    b.send(far, b.packets().subspan(1));
  }
}

// What a program asks of its ports.
struct Wishes {
  port::TxOffloads words;
  bool marks = false, tunnels = false, lro = false;
};

// The ports outlive the frame, as EAL's do.
struct Bench {
  std::unique_ptr<port::Port> ports[2];
  Seen seen;
  app::Program program{.name = "app_ut", .on_burst = on_burst, .context = &seen};
  std::unique_ptr<app::Frame> frame;
  uint32_t number = 0;

  explicit Bench(std::vector<uint32_t> lcores = {0}, const port::QueueSizes& sizes = {},
                 const Wishes& wishes = {})
      : seen{.looks = wishes.marks || wishes.tunnels, .divides = wishes.lro} {
    CU_ASSERT_TRUE_FATAL(test::start_eal());
    program.tx_words = wishes.words;
    program.marks = wishes.marks;
    program.tunnels = wishes.tunnels;
    program.lro = wishes.lro;
    const std::string wire = test::fresh("cable:a");
    for (auto& p : ports) p = test::make_port(test::fresh("vhca"), wire, 0, sizes);
    port::Port* both[] = {ports[near].get(), ports[far].get()};
    auto made = app::Frame::create(both, lcores, program);
    CU_ASSERT_TRUE_FATAL(made.ok());
    frame = *std::move(made);
  }
  ~Bench() {
    for (auto& p : ports) p->unconfigure();
    for (const auto& lane : frame->lanes()) lane->cache->flush();
    EQUAL(frame->pool().available(), frame->pool().size());
  }

  app::Lane& lane(std::size_t i = 0) { return *frame->lanes()[i]; }
  // `n` numbered packets from the near port, by lane 0, in one call.
  void send(uint32_t n) {
    Burst b(lane(), near, {});
    for (uint32_t i = 0; i < n; i++) {
      Handle h;
      EQUAL_FATAL(lane().cache->alloc({&h, 1}, 60), 1u);
      std::memset(b.bytes(h).data(), 2, 60);
      std::memcpy(b.bytes(h).data() + 20, &number, sizeof number);
      number++;
      if (program.tx_words.vlan) b.ask(h, {.tag = pool::VlanTag::customer, .tci = 7});
      b.send(near, h);
    }
    lane().flush(lane().outputs[near]);
  }
  void send(const test::Bytes& bytes) {
    Burst b(lane(), near, {});
    Handle h;
    EQUAL_FATAL(lane().cache->alloc({&h, 1}, static_cast<uint16_t>(bytes.size())), 1u);
    std::memcpy(b.bytes(h).data(), bytes.data(), bytes.size());
    b.send(near, h);
    lane().flush(lane().outputs[near]);
  }
  void turns(int n) {
    for (int i = 0; i < n; i++)
      for (const auto& l : frame->lanes()) l->worker->round();
  }
};

void comes_back(bool one_by_one) {
  Bench b;
  b.seen.one_by_one = one_by_one;
  for (int i = 0; i < 20; i++) {
    b.send(100);
    b.turns(20);
  }
  EQUAL(b.seen.back, 2000u);
  EQUAL(b.seen.wrong, 0u);
  EQUAL(b.lane().received.read(), 4000u);
  EQUAL(b.lane().sent.read(), 4000u);
  EQUAL(b.lane().no_room.read(), 0u);
}

void what_a_packet_asks_for_is_done() {
  Bench b({0}, {}, {.words = {.vlan = true}});
  b.send(100);
  b.turns(20);
  EQUAL(b.seen.back, 100u);
  EQUAL(b.seen.tagged, 100u);
  EQUAL(b.seen.wrong, 0u);
}

// What a program reads of two frames in VXLAN, TCP and UDP, of which a rule marks the second.
std::vector<pool::SideRecord> sides_of(bool marks, bool tunnels) {
  Bench b({0}, {.rxq = 2}, {.marks = marks, .tunnels = tunnels});
  flow::Rule rule;
  rule.match.ipv4 = flow::Ipv4{};
  rule.match.udp = flow::Ports{.dst = flow::exactly(flow::port_vxlan)};
  rule.match.tunnel = flow::Tunnel{.id = {0x123457, 0xffffff}};
  rule.action.mark = 0xabcde;
  CU_ASSERT_TRUE_FATAL(b.frame->ports()[far]->add_rule(rule).ok());
  b.send(test::make_tunnel({}));
  b.send(test::make_tunnel({.inner = {.tcp = false}, .id = 0x123457}));
  b.turns(20);
  EQUAL_FATAL(b.seen.sides.size(), 2u);
  return b.seen.sides;
}

void marks_and_tunnels_are_read() {
  constexpr uint32_t outside = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN;
  constexpr uint32_t inside = outside | RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN;
  for (const bool marks : {true, false}) {
    for (const bool tunnels : {true, false}) {
      if (!marks && !tunnels) continue;  // without side records there is nothing to be read
      std::vector<pool::SideRecord> got = sides_of(marks, tunnels);
      if (got[0].packet_type == (inside | RTE_PTYPE_INNER_L4_UDP)) std::swap(got[0], got[1]);
      EQUAL(got[0].packet_type,
            tunnels ? inside | RTE_PTYPE_INNER_L4_TCP : outside | RTE_PTYPE_L4_UDP);
      EQUAL(got[1].packet_type,
            tunnels ? inside | RTE_PTYPE_INNER_L4_UDP : outside | RTE_PTYPE_L4_UDP);
      if (marks && tunnels) EQUAL(got[0].mark(), 0u);
      if (marks) EQUAL(got[0].mark() + got[1].mark(), 0xabcdeu);
    }
  }
}

// Segments that were joined on their way are as many again when they come back.
void joined_segments_come_back() {
  Bench b({0}, {.rxq = 2}, {.words = {.tso = true}, .lro = true});
  uint32_t sent = 0;
  for (int round = 0; round < 10; round++) {
    for (uint32_t i = 0; i < 4; i++, sent++)
      b.send(test::make_frame({.payload = 100,
                               .tcp_flags = static_cast<uint8_t>(i == 3 ? 0x18 : 0x10),
                               .seq = 1000 + i * 100}));
    b.turns(20);
  }
  CU_ASSERT_TRUE(b.seen.joined >= 5);
  EQUAL(b.seen.back, sent);
}

void one_by_one_comes_back() {
  comes_back(true);
}
void a_burst_behind_one_comes_back() {
  comes_back(false);
}

void drops_are_counted() {
  Bench b;
  b.seen.drops = true;
  b.send(100);
  b.turns(20);
  EQUAL(b.seen.back, 0u);
  EQUAL(b.lane().received.read(), 100u);
  EQUAL(b.lane().dropped.read(), 100u);
  EQUAL(b.lane().sent.read(), 100u);
}

// The device does not run meanwhile, so the transmit queue fills.
void a_full_queue_is_counted() {
  Bench b({0}, {.rxd = 512, .txd = 64});
  b.send(700);
  EQUAL(b.lane().sent.read() + b.lane().no_room.read(), 700u);
  EQUAL(b.lane().sent.read(), 64u);  // the depth, however many packets a WQE has
  const uint64_t sent = b.lane().sent.read();
  b.turns(200);
  EQUAL(b.seen.back, sent);
}

void queues_go_round_the_lanes() {
  Bench b({0, 1});
  EQUAL_FATAL(b.frame->lanes().size(), 2u);
  EQUAL(b.lane(0).inputs.size(), 1u);
  EQUAL(b.lane(1).inputs.size(), 1u);
  EQUAL(b.lane(1).inputs[0]->number, far);
  EQUAL(b.ports[near]->sizes().txq, 2u);
  b.send(100);
  b.turns(20);
  EQUAL(b.seen.back, 100u);
  EQUAL(b.seen.wrong, 0u);
  for (const uint32_t l : b.seen.lanes_of_far) EQUAL(l, 1u);
  EQUAL(b.lane(1).sent.read(), 100u);  // by its own transmit queue
  EQUAL(b.lane(0).sent.read(), 100u);
}

void drains() {
  Bench b;
  b.send(100);
  b.frame->drain();
  b.lane().draining = true;  // as the message does in the worker's next turn
  for (const auto& in : b.lane().inputs) app::run_input(in.get(), 32);
  CU_ASSERT_FALSE(b.frame->drained());  // the device has not run: nothing has left
  b.turns(20);
  CU_ASSERT_TRUE(b.frame->drained());
  const uint64_t before = b.lane().received.read();
  b.send(10);
  b.turns(20);
  EQUAL(b.lane().received.read(), before);
}

int refusal(std::span<port::Port* const> ports, std::vector<uint32_t> lcores, uint32_t burst) {
  const app::Program program{.on_burst = on_burst, .burst = burst};
  auto made = app::Frame::create(ports, lcores, program);
  return made ? 0 : made.error().code;
}

void refusals() {
  CU_ASSERT_TRUE_FATAL(test::start_eal());
  auto p = test::make_port(test::fresh("vhca"), test::fresh("cable:a"));
  port::Port* one[] = {p.get()};
  EQUAL(refusal({}, {0}, 32), EINVAL);
  EQUAL(refusal(one, {}, 32), EINVAL);
  EQUAL(refusal(one, {0}, 0), EINVAL);
  EQUAL(refusal(one, {0}, 65), EINVAL);
  EQUAL(refusal(one, std::vector<uint32_t>(65, 0), 32), EINVAL);
  EQUAL(refusal(one, {0}, 64), 0);
}

constexpr test::Case cases[] = {
    {"packets sent one by one come back in order", one_by_one_comes_back},
    {"what a packet asks for is done", what_a_packet_asks_for_is_done},
    {"marks of rules and types inside tunnels are read", marks_and_tunnels_are_read},
    {"segments are joined and sent as segments again", joined_segments_come_back},
    {"a burst behind a single packet comes back in order", a_burst_behind_one_comes_back},
    {"what a program drops is counted", drops_are_counted},
    {"what a full transmit queue does not take is counted and freed", a_full_queue_is_counted},
    {"receive queues go round the lanes, each sends by its own queues", queues_go_round_the_lanes},
    {"a draining lane receives nothing more and tells when all has left", drains},
    {"what cannot be started is refused", refusals},
};

}  // namespace
}  // namespace app_ut

KILIM_TEST_MAIN(app) {
  return kilim::test::run_tables(
      "kilim/detail/app", {app_ut::cases, kilim::test::lane_cases(), kilim::test::flow_cases()},
      argc, argv);
}
