// SPDX-License-Identifier: BSD-3-Clause
// Which frames an ethdev receives as it is asked for at run time: addresses, groups, VLANs, MTU,
// queues that stop. Each seen in frames.
#include <chrono>

#include "ethdev_cases.hh"

namespace ethdev_filters_ut {
namespace {

using namespace kilim::test;

constexpr rte_ether_addr own_mac{{2, 0, 0, 0, 0, 0x51}}, further_mac{{2, 0, 0, 0, 0, 0x52}},
    other_mac{{2, 0, 0, 0, 0, 0x53}}, group_mac{{1, 0, 0x5e, 0, 0, 5}},
    all_hosts{{1, 0, 0x5e, 0, 0, 1}};

// Which of the frames to these five addresses arrive: a digit each.
std::string arrivals(EthPair& p) {
  std::string got;
  for (const rte_ether_addr& to : {own_mac, further_mac, other_mac, group_mac, all_hosts}) {
    Bytes frame = frame_of(100, 0);
    std::memcpy(frame.data(), to.addr_bytes, RTE_ETHER_ADDR_LEN);
    p.far.send(frame);
    for (int turn = 0; turn < 4; turn++) (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
    rte_mbuf* m[2];
    uint16_t n = 0;
    for (int turn = 0; turn < 10 && n == 0; turn++) n = rte_eth_rx_burst(p.near.id, 0, m, 2);
    got += static_cast<char>('0' + n);
    rte_pktmbuf_free_bulk(m, n);
  }
  return got;
}

void addresses_are_received_as_asked() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  const uint16_t id = p.near.id;
  rte_ether_addr mac = own_mac, more = further_mac, groups[2] = {group_mac, all_hosts};
  EQUAL(arrivals(p), "11111");  // promiscuous
  EQUAL(rte_eth_promiscuous_disable(id), 0);
  EQUAL(arrivals(p), "00000");
  EQUAL(rte_eth_dev_default_mac_addr_set(id, &mac), 0);
  EQUAL(arrivals(p), "10000");
  EQUAL(rte_eth_dev_mac_addr_add(id, &more, 0), 0);
  EQUAL(arrivals(p), "11000");
  EQUAL(rte_eth_dev_set_mc_addr_list(id, groups, 1), 0);
  EQUAL(arrivals(p), "11010");
  EQUAL(rte_eth_dev_set_mc_addr_list(id, groups + 1, 1), 0);
  EQUAL(arrivals(p), "11001");
  EQUAL(rte_eth_dev_set_mc_addr_list(id, nullptr, 0), 0);
  EQUAL(rte_eth_dev_mac_addr_remove(id, &more), 0);
  EQUAL(arrivals(p), "10000");
  EQUAL(rte_eth_allmulticast_enable(id), 0);
  EQUAL(arrivals(p), "10011");
  // Kept over a stop.
  EQUAL(rte_eth_dev_stop(id), 0);
  EQUAL(rte_eth_dev_start(id), 0);
  EQUAL(arrivals(p), "10011");
  EQUAL(rte_eth_allmulticast_disable(id), 0);
  EQUAL(arrivals(p), "10000");
  EQUAL(rte_eth_promiscuous_enable(id), 0);
  EQUAL(arrivals(p), "11111");
}

// A frame with a tag: how many bytes of it arrive; 0: it does not.
std::size_t tagged_arrives(EthPair& p) {
  FrameSpec s{.tcp = false, .tags = 1};
  s.payload = 100 - payload_of(s);
  p.far.send(make_frame(s));
  for (int turn = 0; turn < 4; turn++) (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
  rte_mbuf* m = nullptr;
  for (int turn = 0; turn < 10 && m == nullptr; turn++) (void)rte_eth_rx_burst(p.near.id, 0, &m, 1);
  const std::size_t bytes = m == nullptr ? 0 : m->pkt_len;
  rte_pktmbuf_free(m);
  return bytes;
}

void tags_are_stripped_and_filtered_as_asked() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  const uint16_t id = p.near.id;
  EQUAL(rte_eth_promiscuous_disable(id), 0);
  rte_ether_addr mine{{2, 0x11, 0x12, 0x13, 0x14, 0x15}};  // of make_frame()
  EQUAL(rte_eth_dev_default_mac_addr_set(id, &mine), 0);
  EQUAL(tagged_arrives(p), 100);
  EQUAL(rte_eth_dev_set_vlan_offload(id, RTE_ETH_VLAN_STRIP_OFFLOAD), 0);
  EQUAL(tagged_arrives(p), 96);
  EQUAL(rte_eth_dev_set_vlan_strip_on_queue(id, 0, 0), 0);
  EQUAL(tagged_arrives(p), 100);
  EQUAL(rte_eth_dev_set_vlan_strip_on_queue(id, 0, 1), 0);
  EQUAL(tagged_arrives(p), 96);
  EQUAL(rte_eth_dev_set_vlan_offload(id, RTE_ETH_VLAN_FILTER_OFFLOAD), 0);
  EQUAL(rte_eth_dev_get_vlan_offload(id), RTE_ETH_VLAN_FILTER_OFFLOAD);
  EQUAL(rte_eth_dev_vlan_filter(id, 7, 1), 0);
  EQUAL(tagged_arrives(p), 0);
  EQUAL(rte_eth_dev_vlan_filter(id, 0x64, 1), 0);
  EQUAL(tagged_arrives(p), 100);
  EQUAL(rte_eth_dev_vlan_filter(id, 0x64, 0), 0);
  EQUAL(tagged_arrives(p), 0);
  EQUAL(rte_eth_dev_set_vlan_offload(id, 0), 0);
  EQUAL(tagged_arrives(p), 100);
}

// A frame with `more` bytes than the MTU allows without tags.
bool passes(EthPair& p, uint32_t mtu, uint32_t more = 0) {
  const Bytes frame = frame_of(mtu + RTE_ETHER_HDR_LEN + more, mtu);
  p.far.send(frame);
  for (int turn = 0; turn < 4; turn++) (void)rte_eth_tx_burst(p.far.id, 0, nullptr, 0);
  rte_mbuf* m = nullptr;
  for (int turn = 0; turn < 20 && m == nullptr; turn++) (void)rte_eth_rx_burst(p.near.id, 0, &m, 1);
  const bool whole = m != nullptr && bytes_of(m) == frame;
  rte_pktmbuf_free(m);
  return whole;
}

uint16_t mtu_of(EthPair& p) {
  uint16_t mtu = 0;
  EQUAL(rte_eth_dev_get_mtu(p.near.id, &mtu), 0);
  return mtu;
}

// Buffers of one mbuf that have room: the MTU changes under way, up and down.
void the_mtu_changes_under_way_where_mbufs_are_large() {
  static rte_mempool* const large = mbuf_pool("large", 511, RTE_PKTMBUF_HEADROOM + 9100);
  EthPair p("", large);
  EQUAL_FATAL(p.start({}), 0);
  for (const uint16_t mtu : std::initializer_list<uint16_t>{9000, 68, 1500, 4321}) {
    EQUAL(rte_eth_dev_set_mtu(p.near.id, mtu), 0);
    EQUAL(mtu_of(p), mtu);
    EQUAL(passes(p, mtu), true);
  }
  EQUAL(rte_eth_dev_set_mtu(p.near.id, 9200), -EINVAL);  // no mbuf takes that
  EQUAL(mtu_of(p), 4321);
  EQUAL(passes(p, 4321), true);
}

// Where frames of the MTU take more mbufs the port has to stop for it; then frames of that size
// pass, and the MTU goes down and up under way.
void the_mtu_changes_with_scattered_mbufs() {
  EthPair p;
  EQUAL_FATAL(p.start({.rx = RTE_ETH_RX_OFFLOAD_SCATTER}), 0);
  EQUAL(passes(p, 1500), true);
  EQUAL(passes(p, 9000), false);
  EQUAL(rte_eth_dev_set_mtu(p.near.id, 9000), -EBUSY);
  EQUAL(mtu_of(p), 1500);
  EQUAL(passes(p, 1500), true);
  EQUAL(xstat(p.near, "rx_q0_too_long"), 1);
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  EQUAL(rte_eth_dev_set_mtu(p.near.id, 9000), 0);
  EQUAL_FATAL(rte_eth_dev_start(p.near.id), 0);
  EQUAL(passes(p, 9000), true);
  EQUAL(rte_eth_dev_set_mtu(p.near.id, 1500), 0);
  EQUAL(passes(p, 1500), true);
  EQUAL(rte_eth_dev_set_mtu(p.near.id, 9000), 0);
  EQUAL(passes(p, 9000), true);
  EQUAL(mtu_of(p), 9000);
}

// Of frames longer than the MTU, as the port tells now and then.
bool dropped_of(EthPort& port, uint64_t frames) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (xstat(port, "rx_oversize_errors") < frames && std::chrono::steady_clock::now() < end)
    (void)rte_eth_tx_burst(port.id, 0, nullptr, 0);
  return xstat(port, "rx_oversize_errors") == frames;
}

// DPDK's TestSuite_mtu: of nine bytes more than the MTU a frame is dropped, however roomy the mbufs
// are and whatever a receive is made of; with room for two tags it is not. Who asks for no MTU
// takes what comes.
void a_frame_longer_than_the_mtu_is_dropped() {
  static rte_mempool* const large = mbuf_pool("roomy", 511, RTE_PKTMBUF_HEADROOM + 9100);
  struct Way {
    const char* args;
    uint64_t offloads;
    bool roomy;
  };
  for (const Way& way :
       {Way{"", 0, true}, Way{"", RTE_ETH_RX_OFFLOAD_SCATTER, false}, Way{",mprq_en=1", 0, true}}) {
    EthPair p(way.args, way.roomy ? large : nullptr);
    EQUAL_FATAL(p.start({.rx = way.offloads}), 0);
    if (way.roomy) EQUAL(passes(p, 2000), true);
    uint64_t dropped = 0;
    for (const uint16_t mtu : std::initializer_list<uint16_t>{1500, 1000, 1480}) {
      EQUAL(rte_eth_dev_set_mtu(p.near.id, mtu), 0);
      for (int round = 0; round < 3; round++) {
        EQUAL(passes(p, mtu, 8), true);
        EQUAL(passes(p, mtu, 9), false);
        dropped++;
      }
    }
    CU_ASSERT(dropped_of(p.near, dropped));
    rte_eth_stats stats{};
    EQUAL(rte_eth_stats_get(p.near.id, &stats), 0);
    EQUAL(stats.ierrors, dropped);
    EQUAL(stats.imissed, 0);
    // The wish is kept over a stop, and ends with a reset.
    EQUAL(rte_eth_dev_stop(p.near.id), 0);
    EQUAL(rte_eth_dev_start(p.near.id), 0);
    EQUAL(passes(p, 1480, 9), false);
    EQUAL(rte_eth_dev_stop(p.near.id), 0);
    EQUAL(rte_eth_dev_reset(p.near.id), 0);
    EQUAL_FATAL(p.start({.rx = way.offloads}), 0);
    if (way.roomy) EQUAL(passes(p, 2000), true);
  }
}

// So it is where the port is configured with one.
void a_configured_mtu_holds() {
  static rte_mempool* const large = mbuf_pool("wide", 511, RTE_PKTMBUF_HEADROOM + 9100);
  EthPair p("", large);
  PortAsk ask;
  ask.mtu = 1400;
  EQUAL_FATAL(p.start(ask), 0);
  EQUAL(passes(p, 1400, 8), true);
  EQUAL(passes(p, 1400, 9), false);
  ask.mtu = 1600;
  EQUAL_FATAL(p.start(ask), 0);
  EQUAL(passes(p, 1600, 8), true);
  EQUAL(passes(p, 1600, 9), false);
}

// Without either the buffers stay too short, started or not.
void the_mtu_is_refused_where_nothing_takes_it() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  EQUAL(rte_eth_dev_set_mtu(p.near.id, 9000), -EINVAL);
  EQUAL(rte_eth_dev_stop(p.near.id), 0);
  EQUAL(rte_eth_dev_set_mtu(p.near.id, 9000), -EINVAL);
  EQUAL(rte_eth_dev_set_mtu(p.near.id, 67), -EINVAL);
  EQUAL(rte_eth_dev_start(p.near.id), 0);
  EQUAL(passes(p, 1500), true);
  EQUAL(mtu_of(p), 1500);
}

// Frames for a stopped queue are dropped, and it sends none; started again it does both.
void queues_stop_and_start_by_themselves() {
  EthPair p;
  EQUAL_FATAL(p.start({}), 0);
  const uint16_t id = p.near.id;
  EQUAL(passes(p, 100), true);
  EQUAL(rte_eth_dev_rx_queue_stop(id, 0), 0);
  EQUAL(passes(p, 100), false);
  EQUAL(rte_eth_dev_rx_queue_start(id, 0), 0);
  EQUAL(passes(p, 100), true);
  EQUAL(rte_eth_dev_tx_queue_stop(id, 0), 0);
  rte_mbuf* m = p.near.load(make_frame(udp4));
  EQUAL_FATAL(rte_eth_tx_burst(id, 0, &m, 1), 0);
  EQUAL(rte_eth_dev_tx_queue_start(id, 0), 0);
  p.near.send(m);
  rte_mbuf* const got = p.receive_one(p.far);
  CU_ASSERT_PTR_NOT_NULL_FATAL(got);
  rte_pktmbuf_free(got);
  // Both from the beginning.
  EQUAL(rte_eth_dev_stop(id), 0);
  rte_eth_rxconf rx{};
  rte_eth_txconf tx{};
  rx.rx_deferred_start = tx.tx_deferred_start = 1;
  EQUAL(rte_eth_rx_queue_setup(id, 0, 128, SOCKET_ID_ANY, &rx, p.pool), 0);
  EQUAL(rte_eth_tx_queue_setup(id, 0, 128, SOCKET_ID_ANY, &tx), 0);
  EQUAL_FATAL(rte_eth_dev_start(id), 0);
  EQUAL(passes(p, 100), false);
  m = p.near.load(make_frame(udp4));
  EQUAL_FATAL(rte_eth_tx_burst(id, 0, &m, 1), 0);
  EQUAL(rte_eth_dev_rx_queue_start(id, 0), 0);
  EQUAL(rte_eth_dev_tx_queue_start(id, 0), 0);
  EQUAL(passes(p, 100), true);
  p.near.send(m);
}

const Case of_filters[] = {
    {"addresses are received as asked", addresses_are_received_as_asked},
    {"tags are stripped and filtered as asked", tags_are_stripped_and_filtered_as_asked},
    {"the MTU changes under way where mbufs are large",
     the_mtu_changes_under_way_where_mbufs_are_large},
    {"the MTU changes with scattered mbufs", the_mtu_changes_with_scattered_mbufs},
    {"a frame longer than the MTU is dropped", a_frame_longer_than_the_mtu_is_dropped},
    {"a configured MTU holds", a_configured_mtu_holds},
    {"the MTU is refused where nothing takes it", the_mtu_is_refused_where_nothing_takes_it},
    {"queues stop and start by themselves", queues_stop_and_start_by_themselves},
};

}  // namespace
}  // namespace ethdev_filters_ut

const std::span<const kilim::test::Case> kilim::test::ethdev_filters =
    ethdev_filters_ut::of_filters;
