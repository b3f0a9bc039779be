// SPDX-License-Identifier: BSD-3-Clause
// Ports with several receive queues: where frames land, in which order, and that none is lost or
// doubled while hash, table and filter change and queues stop, start and fail.
#include <cerrno>
#include <iterator>
#include <map>
#include <set>

#include "case_tables.hh"
#include "spread_fixture.hh"
#include "ut.hh"

namespace spread_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

constexpr FrameKind kinds[] = {
    {.layer3 = Layer3::ipv4, .protocol = 17},
    {.layer3 = Layer3::ipv4, .protocol = 6},
    {.layer3 = Layer3::ipv4, .protocol = 1},
    {.layer3 = Layer3::ipv4, .protocol = 17, .fragment = true},
    {.layer3 = Layer3::ipv4, .protocol = 6, .vlan = 7},
    {.layer3 = Layer3::ipv6, .protocol = 17},
    {.layer3 = Layer3::ipv6, .protocol = 6},
    {.layer3 = Layer3::ipv6, .protocol = 58},
    {.layer3 = Layer3::ipv6, .protocol = 17, .vlan = 7},
    {.layer3 = Layer3::ipv4, .protocol = 17, .service = 5},
    {.layer3 = Layer3::ipv4, .protocol = 17, .vlan = 7, .service = 5},
    {.layer3 = Layer3::ipv6, .protocol = 6, .vlan = 7, .service = 5},
    {.layer3 = Layer3::ipv4, .protocol = 17, .dst = {1, 0, 0x5e, 1, 2, 3}},
    {.layer3 = Layer3::arp, .protocol = 0, .dst = {255, 255, 255, 255, 255, 255}},
};

// Sends flows of every kind and compares queue and hash with those of the hash written out.
void check_spread(SpreadBench& b, const flow::Rss& rss) {
  const std::vector<uint16_t> table = flow::table_of(rss, b.queues);
  std::set<uint32_t> used;
  for (uint32_t flow = 0; flow < 20; flow++) {
    for (const FrameKind& k : kinds) {
      const Frame f = make_frame(k, flow, flow);
      b.got.clear();
      b.send(f);
      b.receive();
      EQUAL_FATAL(b.got.size(), 1u);
      const uint32_t hash = expected_hash(k, f, rss);
      EQUAL(b.got[0].hash, hash);
      EQUAL(b.got[0].queue, expected_queue(hash, table));
      CU_ASSERT_TRUE(b.got[0].frame == f);
      used.insert(b.got[0].queue);
    }
  }
  EQUAL(used.size(), std::set<uint16_t>(table.begin(), table.end()).size());
}

void where_the_hash_says() {
  SpreadBench b(4);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  check_spread(b, {});
  flow::Rss rss{.key = flow::symmetric_key, .table = {3, 3, 1, 0}};
  for (const uint32_t types : {HashTypes::ip, HashTypes::udp | HashTypes::ipv6, HashTypes::tcp4}) {
    rss.types = types;
    CU_ASSERT_TRUE_FATAL(b.far().set_rss(rss).ok());
    check_spread(b, rss);
  }
}

void kept_over_a_stop() {
  SpreadBench b(3);
  const flow::Rss rss{.types = HashTypes::ip, .table = {2, 1}};
  CU_ASSERT_TRUE_FATAL(b.far().set_rss(rss).ok());
  for (int round = 0; round < 2; round++) {
    CU_ASSERT_TRUE_FATAL(b.far().start().ok());
    check_spread(b, rss);
    b.far().stop();
  }
}

// One queue that spreads: every frame has its hash.
void one_queue_has_hashes() {
  SpreadBench b(1);
  CU_ASSERT_TRUE_FATAL(b.far().set_rss({}).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  check_spread(b, {});
}

// Frames of several flows at once, each numbered: those of a flow stay in one queue and in order.
void flows_keep_their_order() {
  SpreadBench b(4);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  constexpr uint32_t flows = 50, rounds = 40;
  for (uint32_t n = 0; n < rounds; n++) {
    for (uint32_t flow = 0; flow < flows; flow++) {
      Frame f = make_frame(kinds[flow % 2], flow, n);
      std::memcpy(f.data() + f.size() - 8, &flow, 4);
      b.send(f);
    }
    b.receive();
  }
  b.receive_all();
  EQUAL(b.got.size(), flows * rounds);
  std::map<uint32_t, uint32_t> next, queue;
  for (const SpreadBench::Got& g : b.got) {
    uint32_t flow;
    std::memcpy(&flow, g.frame.data() + g.frame.size() - 8, 4);
    EQUAL(number_of(g.frame), next[flow]++);
    EQUAL(queue.emplace(flow, g.queue).first->second, g.queue);
  }
  uint64_t packets = 0;
  for (uint32_t q = 0; q < 4; q++) {
    const port::RxQueueStats s = b.far().rx_stats(q);
    CU_ASSERT_TRUE(s.packets > 0);
    EQUAL(s.bytes, s.packets * 100);
    packets += s.packets;
  }
  EQUAL(packets, flows * rounds);
  EQUAL(b.far().stats().rx_packets, packets);
}

// A set of rules per change, in both bands, with frames on their way: each arrives once, by the old
// table or the new one.
void changed_under_traffic() {
  SpreadBench b(4);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  uint32_t sent = 0;
  for (uint16_t round = 0; round < 9; round++) {
    const auto queue = static_cast<uint16_t>(round % 4);
    for (int i = 0; i < 20; i++, sent++)
      b.send(make_frame(kinds[sent % std::size(kinds)], sent, sent));
    flow::Rss rss{.table = {queue}};
    if (round % 3 == 1) rss.types = HashTypes::ip;
    CU_ASSERT_TRUE_FATAL(b.far().set_rss(rss).ok());
    b.got.clear();
    b.receive_all();
    EQUAL(b.got.size(), 20u);
    for (const SpreadBench::Got& g : b.got) EQUAL(g.queue, queue);
  }
  const flow::Filter only_own{.promiscuous = false};
  CU_ASSERT_TRUE_FATAL(b.far().set_filter(only_own).ok());
  CU_ASSERT_FALSE(b.far().filter().promiscuous);
}

// Which of its queues a stopped one was does not matter to the others; nothing is lost but what was
// for it.
void stop_and_start_a_queue() {
  SpreadBench b(4);
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  const std::vector<uint16_t> table = flow::table_of({}, 4);
  uint32_t sent = 0;
  for (uint32_t round = 0; round < 5; round++) {
    const uint32_t stopped = round % 4;
    for (int i = 0; i < 30; i++, sent++) b.send(make_frame(udp4_kind, sent, sent));
    b.t.run_devices();  // they lie in the queues
    const uint32_t waiting = b.far().rx_depth(stopped);
    const uint64_t before = b.far().rx_stats(stopped).discarded;
    CU_ASSERT_TRUE(waiting > 0);
    CU_ASSERT_TRUE_FATAL(b.far().stop_rx(stopped, nullptr).ok());
    EQUAL(b.far().rx_stats(stopped).discarded, before + waiting);
    CU_ASSERT_TRUE(b.far().rx_stats(stopped).stopped);
    CU_ASSERT_TRUE(!b.far().rx_stats(stopped).down);
    CU_ASSERT_TRUE(b.far().stop_rx(stopped, nullptr).ok());  // again does nothing
    b.got.clear();
    b.receive_all();
    EQUAL(b.got.size(), 30u - waiting);
    uint32_t for_others = 0;
    for (int i = 0; i < 30; i++, sent++) {
      const Frame f = make_frame(udp4_kind, sent, sent);
      for_others += expected_queue(expected_hash(udp4_kind, f, {}), table) != stopped;
      b.send(f);
    }
    b.got.clear();
    b.receive_all();
    EQUAL(b.got.size(), for_others);
    b.far().revive(nullptr);  // leaves a stopped queue alone
    EQUAL(b.far().stats().recoveries, 0u);
    CU_ASSERT_TRUE_FATAL(b.far().start_rx(stopped).ok());
    CU_ASSERT_TRUE(b.far().start_rx(stopped).ok());
    check_spread(b, {});
  }
  EQUAL(b.far().stats().queues_down, 0u);
}

void a_port_stops_with_frames_in_every_queue() {
  SpreadBench b(4);
  uint64_t discarded = 0;
  for (uint32_t round = 0; round < 5; round++) {
    CU_ASSERT_TRUE_FATAL(b.far().start().ok());
    for (uint32_t i = 0; i < 40; i++) b.send(make_frame(udp4_kind, i, i));
    b.t.run_devices();
    if (round == 2) CU_ASSERT_TRUE(b.far().stop_rx(1, nullptr).ok());
    b.far().stop();
    discarded += 40;
    EQUAL(b.far().stats().rx_discarded, discarded);
    b.t.run_devices();
  }
  EQUAL(b.far().stats().rx_packets, 0u);
}

// Buffers for two queues and a half: everything is given back.
void a_start_that_fails_leaves_nothing() {
  SpreadBench b(4, 400);
  EQUAL(b.far().start().error().code, ENOMEM);
  CU_ASSERT_FALSE(b.far().started());
  for (const auto& c : b.caches) c->flush();
  b.t.near->stop();
  EQUAL(b.t.out(), 0u);
  EQUAL(b.far().start_rx(0).error().code, EINVAL);
}

// A work queue fails, and comes back; the others go on all the time.
void a_failed_queue_comes_back() {
  SpreadBench b(2);
  const flow::Rss rss{.table = {0, 1}};
  CU_ASSERT_TRUE_FATAL(b.far().set_rss(rss).ok());
  CU_ASSERT_TRUE_FATAL(b.far().start().ok());
  for (uint32_t round = 1; round <= 5; round++) {
    // The first handle of a work queue that can be found is one of its queue 0 or 1.
    bool failed = false;
    for (uint32_t n = 1 + round % 2; n < 200 && !failed; n++)
      failed = b.far().device().set_rwq_state(device::RwqHandle{n}, device::RwqState::error).ok();
    CU_ASSERT_TRUE_FATAL(failed);
    b.receive_all();  // the flush errors come
    EQUAL(b.far().stats().queues_down, 1u);
    b.far().revive(nullptr);
    EQUAL(b.far().stats().recoveries, round);
    EQUAL(b.far().stats().queues_down, 0u);
    check_spread(b, rss);
  }
}

const kilim::test::Case cases[] = {
    {"every frame lands where the written-out hash says", where_the_hash_says},
    {"how frames are spread is kept over a stop", kept_over_a_stop},
    {"one queue has hashes if it was asked to spread", one_queue_has_hashes},
    {"frames of a flow stay in one queue and in order", flows_keep_their_order},
    {"spreading changes under traffic: none lost, none doubled", changed_under_traffic},
    {"a queue stops and starts while the others go on", stop_and_start_a_queue},
    {"a port stops amid traffic and all buffers come back",
     a_port_stops_with_frames_in_every_queue},
    {"a start that fails leaves nothing", a_start_that_fails_leaves_nothing},
    {"a failed queue comes back by itself", a_failed_queue_comes_back},
};

}  // namespace
}  // namespace spread_ut

std::span<const kilim::test::Case> kilim::test::hash_cases() {
  return spread_ut::cases;
}

KILIM_TEST_MAIN(spread) {
  return kilim::test::run_tables(
      "spread",
      {spread_ut::cases, kilim::test::rule_cases(), kilim::test::tunnel_cases(),
       kilim::test::worker_cases(), kilim::test::form_cases(), kilim::test::joined_cases(),
       kilim::test::lro_cases(), kilim::test::limit_cases()},
      argc, argv);
}
