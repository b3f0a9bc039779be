// SPDX-License-Identifier: BSD-3-Clause
// The native port beside an ethdev (rte_pmd_kilim.h), and how both end with EAL.
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "ethdev_cases.hh"
#include "kilim/detail/port/port.hh"
#include "net/kilim/native.hh"

namespace ethdev_native_ut {
namespace {

using namespace kilim::test;

// Kilim's own queues on an ethdev's port.
struct NativeQueues {
  explicit NativeQueues(kilim::port::Port& p)
      : port(p),
        memory(
            *std::move(kilim::pool::ArenaMemory::create({.buffers = 1024, .side_records = true}))),
        pool(*std::move(kilim::pool::Pool::create(memory.arena(), {.name = "own", .count = 1024}))),
        cache(pool) {}
  // 0 or the errno of what was refused.
  int start() {
    const kilim::port::QueueSizes sizes{.rxd = 128, .txd = 128};
    if (kilim::Status s = port.configure(sizes, memory); !s) return s.error().code;
    if (kilim::Status s = port.set_rx(0, {.cache = &cache}); !s) return s.error().code;
    if (kilim::Status s = port.set_tx(0, {.cache = &cache}); !s) return s.error().code;
    const kilim::Status s = port.start();
    return s ? 0 : s.error().code;
  }
  void receive() {
    port.poller().fn(port.poller().context, 32);
    kilim::pool::Handle h[1];
    if (port.rx(0, h) != 1) return;
    received++;
    cache.free_one(h[0]);
  }
  void stop() { port.unconfigure(); }

  kilim::port::Port& port;
  kilim::pool::ArenaMemory memory;
  kilim::pool::Pool pool;
  kilim::pool::BufferCache cache;
  int received = 0;
};

kilim::port::Port& native_of(EthPort& port) {
  kilim_port* const p = rte_pmd_kilim_port_of(port.id);
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  return kilim::net::native(p);
}

// The native port of a started ethdev takes rules, which lead frames to the ethdev's queues; its
// own bursts it has when the ethdev has stopped, and then the ethdev does not start.
void both_interfaces_share_a_port() {
  EthPair p;
  kilim::port::Port& native = native_of(p.near);
  CU_ASSERT_TRUE(&native != &native_of(p.far));
  CU_ASSERT_PTR_NULL(rte_pmd_kilim_port_of(RTE_MAX_ETHPORTS - 1));
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  kilim::flow::Rule rule;
  rule.match.ipv4 = kilim::flow::Ipv4{};
  rule.match.udp = kilim::flow::Ports{.dst = kilim::flow::exactly(uint16_t{80})};
  rule.action.queue = 1;
  kilim::flow::RuleError why;
  const auto id = native.add_rule(rule, &why);
  if (!id) std::printf("%s: %s\n", id.error().what, why.what);
  CU_ASSERT_TRUE_FATAL(id.ok());
  for (uint16_t q : {uint16_t{1}, uint16_t{0}}) {
    p.queue_of.clear();
    p.far.send(make_frame(udp4));
    const std::vector<rte_mbuf*> got = p.receive(p.near, 1, 2);
    EQUAL_FATAL(got.size(), 1);
    EQUAL(p.queue_of[0], q);
    rte_pktmbuf_free(got[0]);
    if (q == 1) CU_ASSERT_TRUE(native.remove_rule(*id).ok());
  }
  NativeQueues own(native);
  EQUAL(own.start(), EBUSY);
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  EQUAL(own.start(), 0);
  EQUAL(rte_eth_dev_start(p.near.id), -EBUSY);
  p.far.send(make_frame(udp4));
  for (int turn = 0; turn < 100 && own.received == 0; turn++) {
    (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
    own.receive();
  }
  EQUAL(own.received, 1);
  // What the native port carries is told by the ethdev too, and stays told.
  for (const bool stopped : {false, true}) {
    rte_eth_stats stats{};
    EQUAL(rte_eth_stats_get(p.near.id, &stats), 0);
    EQUAL(stats.ipackets, 3);
    EQUAL(xstat(p.near, "rx_good_packets"), 3);
    if (!stopped) own.stop();
  }
  EQUAL(rte_eth_dev_start(p.near.id), 0);
  p.far.send(make_frame(udp4));
  rte_mbuf* const m = p.receive_one(p.near);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  rte_pktmbuf_free(m);
}

// Whether a frame of so many bytes comes to the native queues.
bool comes(EthPair& p, NativeQueues& own, std::size_t bytes) {
  const int before = own.received;
  p.far.send(frame_of(bytes, 1));
  for (int turn = 0; turn < 100 && own.received == before; turn++) {
    (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
    own.receive();
  }
  return own.received != before;
}

// A frame of MTU, header and two tags (22 bytes) comes, one of a byte more does not; without an MTU
// it comes as long as a receive has room.
void a_native_port_has_an_mtu() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  kilim::port::Port& native = native_of(p.near);
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  NativeQueues own(native);
  EQUAL_FATAL(own.start(), 0);
  EQUAL(native.mtu(), 0);
  EQUAL(comes(p, own, 1800), true);
  for (const uint32_t wrong : {1u, 67u, 9979u, 9000u})  // the last one has no room in a receive
    EQUAL(native.set_mtu(wrong).error().code, EINVAL);
  EQUAL(native.mtu(), 0);
  for (const uint32_t mtu : {1500u, 1000u}) {
    CU_ASSERT_TRUE(native.set_mtu(mtu).ok());
    EQUAL(native.mtu(), mtu);
    EQUAL(comes(p, own, mtu + 22), true);
    EQUAL(comes(p, own, mtu + 23), false);
  }
  own.stop();
  EQUAL_FATAL(own.start(), 0);
  EQUAL(comes(p, own, 1023), false);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (native.losses().rx_oversize < 3 && std::chrono::steady_clock::now() < end)
    native.poller().fn(native.poller().context, 32);
  EQUAL(native.losses().rx_oversize, 3);
  CU_ASSERT_TRUE(native.set_mtu(0).ok());
  EQUAL(comes(p, own, 1023), true);
  own.stop();
}

// Each order in a process of its own, as EAL ends once: what is done before rte_eal_cleanup().
constexpr const char* orders[] = {"nothing", "traffic", "stopped",  "closed", "reset",
                                  "removed", "native",  "sleeping", "lost"};

void eal_is_cleaned_up_in_any_order() {
  char self[256] = {};
  CU_ASSERT_TRUE_FATAL(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  for (const char* what : orders) {
    const std::string line =
        std::string("exec '") + self + "' --suite ethdev --order " + what + " >/dev/null";
    const int status = std::system(line.c_str());
    if (status != 0) std::printf("%s: %#x\n", what, static_cast<unsigned>(status));
    EQUAL(status, 0);
  }
}

const Case of_native_use[] = {
    {"a native port has an MTU", a_native_port_has_an_mtu},
    {"both interfaces share a port", both_interfaces_share_a_port},
    {"EAL is cleaned up in any order", eal_is_cleaned_up_in_any_order},
};

std::string_view order;

void clean_up() {
  // Nobody destroys them: EAL does.
  static EthPair* const p = new EthPair(order == "lost"       ? ",fault=fatal@1"
                                        : order == "sleeping" ? ",progress=thread"
                                                              : "");
  static NativeQueues* const own =
      order == "native" ? new NativeQueues(native_of(p->near)) : nullptr;
  if (order != "nothing") {
    EQUAL(p->start({.interrupts = order == "sleeping"}), 0);
    p->far.send(make_frame(udp4));
  }
  if (order == "traffic" || order == "lost") p->near.send(make_frame(udp4));
  if (order == "lost") EQUAL(p->near.unplug(), 0);
  if (order == "sleeping") {
    EQUAL(
        rte_eth_dev_rx_intr_ctl_q(p->near.id, 0, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, nullptr),
        0);
    EQUAL(rte_eth_dev_rx_intr_enable(p->near.id, 0), 0);
  }
  if (order == "reset") EQUAL(rte_eth_dev_reset(p->near.id), 0);
  if (order == "stopped" || order == "closed" || order == "native")
    EQUAL(rte_eth_dev_stop(p->near.id), 0);
  if (order == "closed") EQUAL(rte_eth_dev_close(p->near.id), 0);
  if (own != nullptr) EQUAL(own->start(), 0);
  if (order == "removed") {
    delete p;
    rte_mempool_free(EthPair::shared_pool());
  }
  EQUAL(rte_eal_cleanup(), 0);
}

const Case clean_ups[] = {{"EAL is cleaned up", clean_up}};

}  // namespace
}  // namespace ethdev_native_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_natives =
    ethdev_native_ut::of_native_use;

int kilim::test::clean_up_after(const char* what) {
  ethdev_native_ut::order = what;
  return kilim::test::run_cases("ethdev", ethdev_native_ut::clean_ups, 0, nullptr);
}
