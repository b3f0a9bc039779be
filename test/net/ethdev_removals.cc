// SPDX-License-Identifier: BSD-3-Clause
// How a port ends and begins anew: rte_eth_dev_reset(), rte_eth_dev_close(), rte_dev_remove() under
// traffic, and a device that dies.
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "ethdev_cases.hh"

namespace ethdev_removals_ut {
namespace {

using namespace kilim::test;

// Of the ports that end here: what they hold shows in it.
rte_mempool* pool_of_ends() {
  static rte_mempool* const pool = mbuf_pool("ends", 1023);
  return pool;
}

// Everything that an application can have asked of a port.
void ask_for_all(EthPair& p) {
  PortAsk ask{.rx = RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_VLAN_FILTER |
                    RTE_ETH_RX_OFFLOAD_RSS_HASH,
              .queues = 4,
              .rss = RTE_ETH_RSS_IPV4};
  ask.mtu = 5000;
  EQUAL_FATAL(p.start(ask), 0);
  rte_ether_addr mine{{2, 9, 9, 9, 9, 1}}, further{{2, 9, 9, 9, 9, 2}};
  EQUAL(rte_eth_dev_default_mac_addr_set(p.near.id, &mine), 0);
  EQUAL(rte_eth_dev_mac_addr_add(p.near.id, &further, 0), 0);
  EQUAL(rte_eth_dev_vlan_filter(p.near.id, 100, 1), 0);
  EQUAL(rte_eth_promiscuous_disable(p.near.id), 0);
  EQUAL(rte_eth_allmulticast_enable(p.near.id), 0);
  rte_flow_attr attr{};
  attr.ingress = 1;
  const rte_flow_item pattern[] = {{RTE_FLOW_ITEM_TYPE_ETH, nullptr, nullptr, nullptr},
                                   {RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr, nullptr}};
  const rte_flow_action drop[] = {{RTE_FLOW_ACTION_TYPE_DROP, nullptr},
                                  {RTE_FLOW_ACTION_TYPE_END, nullptr}};
  rte_flow_error error{};
  CU_ASSERT_PTR_NOT_NULL(rte_flow_create(p.near.id, &attr, pattern, drop, &error));
}

void expect_fresh(EthPair& p, const rte_ether_addr& first) {
  rte_ether_addr mac{};
  EQUAL(rte_eth_macaddr_get(p.near.id, &mac), 0);
  EQUAL(std::memcmp(&mac, &first, sizeof mac), 0);
  EQUAL(rte_eth_promiscuous_get(p.near.id), 0);
  EQUAL(rte_eth_allmulticast_get(p.near.id), 1);  // librte_ethdev's, which asks for it again
  uint16_t mtu = 0;
  EQUAL(rte_eth_dev_get_mtu(p.near.id, &mtu), 0);
  EQUAL(mtu, RTE_ETHER_MTU);
  EQUAL(rte_eth_dev_start(p.near.id), -EINVAL);  // it has to be configured
  rte_eth_rxq_info queue{};
  CU_ASSERT_TRUE(rte_eth_rx_queue_info_get(p.near.id, 0, &queue) < 0);
}

Bytes addressed_to(const rte_ether_addr& mac, uint32_t number) {
  Bytes frame = frame_of(100, number);
  std::memcpy(frame.data(), mac.addr_bytes, RTE_ETHER_ADDR_LEN);
  return frame;
}

// Reset amid traffic, and used again: with nothing of what was asked before.
void a_reset_port_is_as_behind_the_probe() {
  EthPair p("", pool_of_ends());
  rte_ether_addr first{};
  EQUAL(rte_eth_macaddr_get(p.near.id, &first), 0);
  const rte_ether_addr old{{2, 9, 9, 9, 9, 1}};
  for (int turn = 0; turn < 5; turn++) {
    ask_for_all(p);
    for (uint32_t n = 0; n < 20; n++) p.far.send(frame_of(100, n));
    for (uint32_t n = 0; n < 20; n++) p.near.send(frame_of(100, n));
    EQUAL(rte_eth_dev_reset(p.near.id), 0);
    EQUAL(rte_mempool_in_use_count(pool_of_ends()), 0);
    expect_fresh(p, first);
    EQUAL(p.near.configure({}), 0);
    EQUAL(p.near.set_up_rx(0, 0), 0);
    EQUAL(p.near.set_up_tx(0, 0), 0);
    EQUAL_FATAL(rte_eth_dev_start(p.near.id), 0);
    p.far.send(addressed_to(old, 1));
    arrives(p, addressed_to(first, 2), 0, 0);  // neither the old address nor the rule that drops
    arrives(p, addressed_to({{1, 0, 0x5e, 0, 0, 1}}, 3), 0, 0);
    p.receive_none(p.near);
    for (const rte_mbuf* m : p.receive(p.far, 20)) rte_pktmbuf_free(const_cast<rte_mbuf*>(m));
  }
}

void a_closed_port_is_gone() {
  EthPair p("", pool_of_ends());
  EQUAL_FATAL(p.start({.queues = 2}), 0);
  p.far.send(make_frame(udp4));
  EQUAL(rte_eth_dev_close(p.near.id), -EINVAL);  // a started one is refused by ethdev
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  EQUAL(rte_eth_dev_close(p.near.id), 0);
  EQUAL(rte_eth_dev_is_valid_port(p.near.id), 0);
  EQUAL(rte_mempool_in_use_count(pool_of_ends()), 0);
}

// Sends to the cable on a thread of its own until it goes.
class Sender {
 public:
  explicit Sender(EthPort& port) : port_(port), thread_([this] { run(); }) {}
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() {
    ends_ = true;
    thread_.join();
  }

 private:
  // No assertions here, which CUnit has for one thread.
  void run() {
    const Bytes frame = frame_of(200, 0);
    while (!ends_) {
      rte_mbuf* m = rte_pktmbuf_alloc(EthPair::shared_pool());
      if (m == nullptr) continue;
      std::memcpy(rte_pktmbuf_append(m, 200), frame.data(), frame.size());
      while (rte_eth_tx_burst(port_.id, 0, &m, 1) == 0) {
        if (ends_) return rte_pktmbuf_free(m);
        std::this_thread::yield();
      }
    }
  }
  EthPort& port_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

template <typename Done>
bool soon(Done done) {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + std::chrono::seconds(20); !done();)
    if (Clock::now() > end) return false;
  return true;
}

int port_ends(uint16_t, rte_eth_event_type, void* count, void*) {
  ++*static_cast<std::atomic<int>*>(count);
  return 0;
}

// The device goes while frames arrive on it, and its neighbour goes on sending; plugged in again it
// receives.
void a_device_is_unplugged_under_traffic(const char* name, const char* args) {
  const std::string wire = EthPair::fresh_wire();
  EthPort far(wire, "", *EthPair::shared_pool());
  EQUAL_FATAL(far.start({.tx = RTE_ETH_TX_OFFLOAD_MULTI_SEGS}), 0);
  // The library forgets no callback of a port that went (ethdev_private.c,
  // eth_dev_callback_process()).
  static std::atomic<int> ended;
  const int before = ended;
  {
    Sender sender(far);
    for (int turn = 0; turn < 5; turn++) {
      EthPort near(wire, args, *pool_of_ends(), name);
      EQUAL_FATAL(near.start({}), 0);
      EQUAL(rte_eth_dev_callback_register(near.id, RTE_ETH_EVENT_DESTROY, port_ends, &ended), 0);
      uint32_t got = 0;
      CU_ASSERT_TRUE(soon([&] {
        rte_mbuf* m[8];
        const uint16_t n = rte_eth_rx_burst(near.id, 0, m, 8);
        rte_pktmbuf_free_bulk(m, n);
        return (got += n) >= 100;
      }));
      for (uint32_t n = 0; n < 10; n++) near.send(frame_of(100, n));
      EQUAL(near.unplug(), 0);
      EQUAL(rte_eth_dev_is_valid_port(near.id), 0);
      EQUAL(ended, before + turn + 1);
      EQUAL(rte_mempool_in_use_count(pool_of_ends()), 0);
    }
  }
}

// A device that was unplugged is there again, on its wire or on another one.
void a_device_comes_back_as_it_was() {
  const std::string wire = EthPair::fresh_wire(), as_it_was = "wire=" + wire;
  for (int turn = 0; turn < 3; turn++) {
    EthPort near(wire, "", *EthPair::shared_pool(), "net_kilim32");
    EQUAL(near.start({}), 0);
  }
  EQUAL(rte_eal_hotplug_add("vdev", "net_kilim32", "wire=cable:another"), 0);
  EQUAL(rte_eal_hotplug_remove("vdev", "net_kilim32"), 0);
  EQUAL(rte_eal_hotplug_add("vdev", "net_kilim32", as_it_was.c_str()), 0);
  // A second port on the adapter would be a second user of it.
  CU_ASSERT_TRUE(rte_eal_hotplug_add("vdev", "net_kilim33", ("hca=vhca32," + as_it_was).c_str()) <
                 0);
  EQUAL(rte_eal_hotplug_remove("vdev", "net_kilim32"), 0);
}

void a_polled_device_is_unplugged() {
  a_device_is_unplugged_under_traffic("net_kilim30", "");
}
void a_device_with_a_thread_is_unplugged() {
  a_device_is_unplugged_under_traffic("net_kilim31", ",progress=thread");
}

struct LinkSeen {
  std::atomic<int> events{0};
};

int link_changes(uint16_t, rte_eth_event_type, void* seen, void*) {
  static_cast<LinkSeen*>(seen)->events++;
  return 0;
}

// A device that dies under way: its link goes down, which the application is told; it is removed,
// and no reset brings it back. All mbufs come back.
void a_device_that_dies_takes_its_link_down() {
  EthPair p(",fault=fatal@3", pool_of_ends());
  EQUAL_FATAL(p.start({.link_events = true}), 0);
  LinkSeen seen;
  EQUAL(rte_eth_dev_callback_register(p.near.id, RTE_ETH_EVENT_INTR_LSC, link_changes, &seen), 0);
  rte_eth_link link{};
  EQUAL(rte_eth_link_get_nowait(p.near.id, &link), 0);
  EQUAL(link.link_status, RTE_ETH_LINK_UP);
  EQUAL(rte_eth_dev_is_removed(p.near.id), 0);
  for (uint32_t n = 0; n < 5; n++) {
    rte_mbuf* m = p.near.load(frame_of(100, n));
    if (rte_eth_tx_burst(p.near.id, 0, &m, 1) == 0) rte_pktmbuf_free(m);
  }
  CU_ASSERT_TRUE(soon([&] { return seen.events != 0; }));
  EQUAL(rte_eth_link_get_nowait(p.near.id, &link), 0);
  EQUAL(link.link_status, RTE_ETH_LINK_DOWN);
  EQUAL(rte_eth_dev_is_removed(p.near.id), 1);
  EQUAL(rte_eth_dev_callback_unregister(p.near.id, RTE_ETH_EVENT_INTR_LSC, link_changes, &seen), 0);
  EQUAL(rte_eth_dev_reset(p.near.id), -EIO);
  EQUAL(rte_mempool_in_use_count(pool_of_ends()), 0);
  EQUAL(seen.events, 1);
}

const Case of_removals[] = {
    {"a reset port is as behind the probe", a_reset_port_is_as_behind_the_probe},
    {"a closed port is gone", a_closed_port_is_gone},
    {"a device comes back as it was", a_device_comes_back_as_it_was},
    {"a polled device is unplugged under traffic", a_polled_device_is_unplugged},
    {"a device with a thread is unplugged under traffic", a_device_with_a_thread_is_unplugged},
    {"a device that dies takes its link down", a_device_that_dies_takes_its_link_down},
};

}  // namespace
}  // namespace ethdev_removals_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_removals =
    ethdev_removals_ut::of_removals;
