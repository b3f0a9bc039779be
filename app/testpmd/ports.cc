// SPDX-License-Identifier: BSD-3-Clause
#include "ports.hh"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>

#include "kilim/ethdev.hh"

namespace kilim::testpmd {
namespace {

constexpr std::string_view own_driver = "net_kilim";

Status failed_step(const char* step, int error, std::string& why) {
  why = std::string(step) + ": " + rte_strerror(-error);
  return Error{-error, step};
}

rte_eth_conf conf_of(const rte_eth_dev_info& info, const EthdevSetup& setup) {
  rte_eth_conf conf{};
  if (setup.longest != 0)
    conf.rxmode.mtu = std::clamp<uint32_t>(setup.longest - RTE_ETHER_HDR_LEN, info.min_mtu,
                                           std::max(info.min_mtu, info.max_mtu));
  const uint32_t room = rte_pktmbuf_data_room_size(setup.mbufs);
  if (setup.longest + RTE_PKTMBUF_HEADROOM > room) {
    conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
    conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  }
  const uint64_t rss_hf = setup.sizes.rxq > 1 ? info.flow_type_rss_offloads & setup.rss_hf : 0;
  if (rss_hf != 0) conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
  conf.rx_adv_conf.rss_conf.rss_hf = rss_hf;
  return conf;
}

}  // namespace

std::vector<PortRef> find_ports() {
  std::vector<PortRef> all;
  for (unsigned i = 0; kilim_port* p = rte_pmd_kilim_port_at(i); i++)
    all.push_back({.native = &net::native(p)});
  for (uint16_t id = 0; id < RTE_MAX_ETHPORTS; id++) {
    rte_eth_dev_info info;
    if (rte_eth_dev_is_valid_port(id) == 0) continue;
    if (rte_eth_dev_info_get(id, &info) == 0 && info.driver_name != own_driver)
      all.push_back({.ethdev = id});
  }
  return all;
}

std::string name_of(const PortRef& p) {
  if (p.native != nullptr) return p.native->name();
  char name[RTE_ETH_NAME_MAX_LEN] = "";
  (void)rte_eth_dev_get_name_by_port(p.ethdev, name);
  return name;
}

std::string device_of(const PortRef& p) {
  if (p.native != nullptr) return p.native->device().name();
  rte_eth_dev_info info;
  return rte_eth_dev_info_get(p.ethdev, &info) == 0 ? info.driver_name : "gone";
}

Mac mac_of(const PortRef& p) {
  if (p.native != nullptr) return p.native->info().mac;
  rte_ether_addr address{};
  (void)rte_eth_macaddr_get(p.ethdev, &address);
  Mac mac;
  std::memcpy(mac.data(), address.addr_bytes, mac.size());
  return mac;
}

port::PortStats counts_of(const PortRef& p) {
  if (p.native != nullptr) {
    return p.native->all_stats();
  }
  port::PortStats s;
  rte_eth_stats e{};
  (void)rte_eth_stats_get(p.ethdev, &e);
  s.rx_packets = e.ipackets;
  s.rx_bytes = e.ibytes;
  s.tx_packets = s.tx_completed = e.opackets;
  s.tx_bytes = e.obytes;
  s.rx_missed = e.imissed;
  s.rx_errors = e.ierrors;
  s.rx_no_buffer = e.rx_nombuf;
  s.tx_errors = e.oerrors;
  return s;
}

int numa_node_of(const PortRef& p) {
  const int node =
      p.native != nullptr ? p.native->device().numa_node() : rte_eth_dev_socket_id(p.ethdev);
  return std::max(node, 0);
}

Status set_up_ethdev(uint16_t ethdev, const EthdevSetup& setup, std::string& why) {
  rte_eth_dev_info info;
  if (const int e = rte_eth_dev_info_get(ethdev, &info); e != 0)
    return failed_step("rte_eth_dev_info_get", e, why);
  const port::QueueSizes& s = setup.sizes;
  if (s.rxq > info.max_rx_queues || s.txq > info.max_tx_queues) {
    why = "asked for " + std::to_string(s.rxq) + " receive and " + std::to_string(s.txq) +
          " transmit queues, and the driver has " + std::to_string(info.max_rx_queues) + " and " +
          std::to_string(info.max_tx_queues);
    return Error{EINVAL, "too many queues"};
  }
  rte_flow_error refused{};
  if (setup.isolate)
    if (const int e = rte_flow_isolate(ethdev, 1, &refused); e != 0)
      return failed_step("rte_flow_isolate", e, why);
  const bool first = info.nb_rx_queues == 0;
  const rte_eth_conf conf = conf_of(info, setup);
  const auto rxq = static_cast<uint16_t>(s.rxq);
  const auto txq = static_cast<uint16_t>(s.txq);
  if (const int e = rte_eth_dev_configure(ethdev, rxq, txq, &conf); e != 0)
    return failed_step("rte_eth_dev_configure", e, why);
  // The first start is promiscuous, as in testpmd; later ones keep what was set. A driver without
  // it says so by itself.
  if (first) (void)rte_eth_promiscuous_enable(ethdev);
  const auto node = static_cast<unsigned>(rte_eth_dev_socket_id(ethdev));
  for (uint16_t q = 0; q < rxq; q++)
    if (const int e = rte_eth_rx_queue_setup(ethdev, q, static_cast<uint16_t>(s.rxd), node, nullptr,
                                             setup.mbufs);
        e != 0)
      return failed_step("rte_eth_rx_queue_setup", e, why);
  for (uint16_t q = 0; q < txq; q++)
    if (const int e =
            rte_eth_tx_queue_setup(ethdev, q, static_cast<uint16_t>(s.txd), node, nullptr);
        e != 0)
      return failed_step("rte_eth_tx_queue_setup", e, why);
  return Done{};
}

Status start_ethdev(uint16_t ethdev) {
  if (const int e = rte_eth_dev_start(ethdev); e != 0) return Error{-e, "rte_eth_dev_start"};
  return Done{};
}

void stop_ethdev(uint16_t ethdev) {
  (void)rte_eth_dev_stop(ethdev);
}

// Twice with a pause, at most a second: a device that never runs dry would keep it for ever.
uint64_t flush_ethdev(uint16_t ethdev, uint32_t rxq) {
  constexpr uint16_t burst = 32;
  std::array<rte_mbuf*, burst> mbufs;
  uint64_t freed = 0;
  for (int round = 0; round < 2; round++) {
    for (uint16_t q = 0, n_queues = static_cast<uint16_t>(rxq); q < n_queues; q++) {
      const uint64_t end = rte_get_timer_cycles() + rte_get_timer_hz();
      uint16_t n;
      do {
        n = rte_eth_rx_burst(ethdev, q, mbufs.data(), burst);
        rte_pktmbuf_free_bulk(mbufs.data(), n);
        freed += n;
      } while (n != 0 && rte_get_timer_cycles() < end);
    }
    rte_delay_us_sleep(10'000);
  }
  return freed;
}

}  // namespace kilim::testpmd
