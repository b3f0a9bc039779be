// SPDX-License-Identifier: BSD-3-Clause
#include "nic_report.hh"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include <rte_ethdev.h>

#include "forward_report.hh"
#include "session.hh"
#include "spread.hh"

namespace kilim::testpmd {
namespace {

constexpr const char* hashes = "########################";

uint64_t rate(uint64_t now, uint64_t then, uint64_t ns) {
  if (ns == 0 || now < then) return 0;
  return static_cast<uint64_t>(static_cast<double>(now - then) / static_cast<double>(ns) * 1e9);
}

// Kilim's counts under names as ethdevs have them.
struct Named {
  const char* name;
  uint64_t port::PortStats::*value;
};
constexpr Named extended[] = {
    {"rx_good_packets", &port::PortStats::rx_packets},
    {"tx_good_packets", &port::PortStats::tx_packets},
    {"rx_good_bytes", &port::PortStats::rx_bytes},
    {"tx_good_bytes", &port::PortStats::tx_bytes},
    {"rx_missed_errors", &port::PortStats::rx_missed},
    {"rx_errors", &port::PortStats::rx_errors},
    {"tx_errors", &port::PortStats::tx_errors},
    {"rx_mbuf_allocation_errors", &port::PortStats::rx_no_buffer},
    {"rx_too_long", &port::PortStats::rx_too_long},
    {"rx_phy_discard_packets", &port::PortStats::rx_discards},
    {"rx_phy_crc_errors", &port::PortStats::rx_damaged},
    {"rx_undersize_errors", &port::PortStats::rx_undersize},
    {"rx_oversize_errors", &port::PortStats::rx_oversize},
    {"rx_steer_missed_packets", &port::PortStats::rx_no_rule},
    {"rx_cut_records", &port::PortStats::rx_cut},
    {"tx_phy_discard_packets", &port::PortStats::tx_lost},
    {"rx_discarded", &port::PortStats::rx_discarded},
    {"rx_joined", &port::PortStats::rx_joined},
    {"tx_completed", &port::PortStats::tx_completed},
    {"keys_bound", &port::PortStats::keys_bound},
    {"keys_ended", &port::PortStats::keys_ended},
    {"bind_errors", &port::PortStats::bind_errors},
    {"recoveries", &port::PortStats::recoveries},
    {"queues_down", &port::PortStats::queues_down},
    {"cq_overruns", &port::PortStats::cq_overruns},
    {"queue_events", &port::PortStats::queue_events},
    {"port_changes", &port::PortStats::port_changes},
};

void print_native_xstats(Session& s, uint32_t number) {
  port::Port& p = *s.port(number).native;
  const port::PortStats now = counts_of(s.port(number)), then = s.memory(number).cleared;
  for (const Named& n : extended)
    std::printf("%s: %" PRIu64 "\n", n.name, now.*n.value - then.*n.value);
  if (!p.started()) return;
  for (uint32_t q = 0; q < p.sizes().rxq; q++) {
    const port::RxQueueStats r = p.rx_stats(q);
    std::printf("rx_q%u_packets: %" PRIu64 "\nrx_q%u_bytes: %" PRIu64 "\nrx_q%u_errors: %" PRIu64
                "\nrx_q%u_joined: %" PRIu64 "\n",
                q, r.packets, q, r.bytes, q, r.errors, q, r.joined);
  }
  for (uint32_t q = 0; q < p.sizes().txq; q++) {
    const port::TxQueueStats t = p.tx_stats(q);
    std::printf("tx_q%u_packets: %" PRIu64 "\ntx_q%u_bytes: %" PRIu64 "\n", q, t.packets, q,
                t.bytes);
  }
}

void print_ethdev_xstats(uint16_t id) {
  const int n = rte_eth_xstats_get_names(id, nullptr, 0);
  if (n <= 0) return;
  std::vector<rte_eth_xstat_name> names(static_cast<std::size_t>(n));
  std::vector<rte_eth_xstat> values(static_cast<std::size_t>(n));
  if (rte_eth_xstats_get_names(id, names.data(), static_cast<unsigned>(n)) != n ||
      rte_eth_xstats_get(id, values.data(), static_cast<unsigned>(n)) != n)
    return;
  for (std::size_t i = 0; i < names.size(); i++)
    std::printf("%s: %" PRIu64 "\n", names[i].name, values[i].value);
}

struct Link {
  bool up = false;
  std::string speed;
};

// Says what rte_eth_link_speed_to_str() says, which is experimental.
std::string speed_text(uint32_t mbps) {
  if (mbps == 0) return "None";
  if (mbps == RTE_ETH_SPEED_NUM_UNKNOWN) return "Unknown";
  if (mbps >= 1000 && mbps % 1000 == 0) return std::to_string(mbps / 1000) + " Gbps";
  return std::to_string(mbps) + " Mbps";
}

Link link_of(const PortRef& p) {
  if (p.native != nullptr) {
    const device::PortInfo& i = p.native->info();
    return {i.active, speed_text(i.speed_mbps)};
  }
  rte_eth_link link{};
  const bool told = rte_eth_link_get_nowait(p.ethdev, &link) == 0;
  return {told && link.link_status != 0, speed_text(link.link_speed)};
}

const char* enabled(bool on) {
  return on ? "enabled" : "disabled";
}

void print_native_info(Session& s, uint32_t number) {
  port::Port& p = *s.port(number).native;
  const device::Caps& caps = p.device().caps();
  const port::QueueSizes sizes = s.forwarder().sizes_of(number);
  const uint32_t mtu = p.mtu() != 0 ? p.mtu() : p.info().frame_mtu;
  const uint32_t longest = std::max(s.options().max_packet, s.options().mbuf_size);
  std::printf("MTU: %u\nPromiscuous mode: %s\nAllmulticast mode: %s\n",
              mtu != 0 ? mtu : longest - RTE_ETHER_HDR_LEN, enabled(p.filter().promiscuous),
              enabled(p.filter().all_multicast));
  std::printf("Maximum configurable size of LRO aggregated packet: %u\n",
              caps.lro.supported ? device::LroCaps::max_units * device::LroCaps::unit_bytes : 0);
  std::printf(
      "Maximum number of MAC addresses: %zu\nVLAN offload: \n  strip %s, filter %s, extend "
      "off, qinq strip off\n",
      flow::max_filter_macs + 1, strips_vlan(s.options(), number) ? "on" : "off",
      p.filter().vlans.empty() ? "off" : "on");
  if (caps.spread.usable())
    std::printf(
        "Hash key size in bytes: %zu\nRedirection table size: %u\nSupported RSS offload "
        "flow types:\n%s",
        flow::hash_key_bytes, flow::default_table,
        rss_offer_text(s.forwarder().native_rss_of(number)).c_str());
  else
    std::printf("No RSS offload flow type is supported.\n");
  std::printf(
      "Current number of RX queues: %u\nMax possible RX queues: %u\nMax possible number of "
      "RXDs per queue: %u\nMin possible number of RXDs per queue: %u\n",
      sizes.rxq, port::max_rxq, port::max_depth, port::min_depth);
  std::printf(
      "Current number of TX queues: %u\nMax possible TX queues: %u\nMax possible number of "
      "TXDs per queue: %u\nMin possible number of TXDs per queue: %u\n",
      sizes.txq, port::max_txq, port::max_depth, port::min_depth);
  std::printf("UMR: %s; multi-packet send WQEs: %s; checksums: %s; TSO: %u bytes\n",
              caps.umr ? "yes" : "no", caps.multi_packet ? "yes" : "no",
              caps.tx.checksums ? "yes" : "no", caps.tx.max_tso);
}

void print_ethdev_info(uint16_t id) {
  rte_eth_dev_info info;
  if (rte_eth_dev_info_get(id, &info) != 0) return;
  uint16_t mtu = 0;
  if (rte_eth_dev_get_mtu(id, &mtu) == 0) std::printf("MTU: %u\n", mtu);
  std::printf("Promiscuous mode: %s\nAllmulticast mode: %s\n",
              enabled(rte_eth_promiscuous_get(id) != 0),
              enabled(rte_eth_allmulticast_get(id) != 0));
  std::printf("Maximum number of MAC addresses: %u\n", info.max_mac_addrs);
  std::printf(
      "Minimum size of RX buffer: %u\nMaximum configurable length of RX packet: %u\n"
      "Maximum configurable size of LRO aggregated packet: %u\n",
      info.min_rx_bufsize, info.max_rx_pktlen, info.max_lro_pkt_size);
  std::printf(
      "Current number of RX queues: %u\nMax possible RX queues: %u\nCurrent number of TX "
      "queues: %u\nMax possible TX queues: %u\n",
      info.nb_rx_queues, info.max_rx_queues, info.nb_tx_queues, info.max_tx_queues);
}

}  // namespace

void print_nic_stats(Session& s, uint32_t port) {
  PortMemory& m = s.memory(port);
  const port::PortStats now = counts_of(s.port(port)), c = m.cleared;
  std::printf("\n  %s NIC statistics for port %-2u %s\n", hashes, port, hashes);
  std::printf("  RX-packets: %-10" PRIu64 " RX-missed: %-10" PRIu64 " RX-bytes:  %-" PRIu64 "\n",
              now.rx_packets - c.rx_packets, now.rx_missed - c.rx_missed,
              now.rx_bytes - c.rx_bytes);
  std::printf("  RX-errors: %-" PRIu64 "\n  RX-nombuf:  %-10" PRIu64 "\n",
              now.all_rx_errors() - c.all_rx_errors(), now.rx_no_buffer - c.rx_no_buffer);
  std::printf("  TX-packets: %-10" PRIu64 " TX-errors: %-10" PRIu64 " TX-bytes:  %-" PRIu64 "\n",
              now.tx_packets - c.tx_packets, now.all_tx_errors() - c.all_tx_errors(),
              now.tx_bytes - c.tx_bytes);
  const uint64_t at = monotonic_ns(), ns = m.shown_ns == 0 ? 0 : at - m.shown_ns;
  std::printf("\n  Throughput (since last show)\n");
  std::printf("  Rx-pps: %12" PRIu64 "          Rx-bps: %12" PRIu64 "\n",
              rate(now.rx_packets, m.shown.rx_packets, ns),
              8 * rate(now.rx_bytes, m.shown.rx_bytes, ns));
  std::printf("  Tx-pps: %12" PRIu64 "          Tx-bps: %12" PRIu64 "\n",
              rate(now.tx_packets, m.shown.tx_packets, ns),
              8 * rate(now.tx_bytes, m.shown.tx_bytes, ns));
  std::printf("  %s############################%s\n", hashes, hashes);
  m.shown = now;
  m.shown_ns = at;
}

void print_nic_xstats(Session& s, uint32_t port) {
  std::printf("###### NIC extended statistics for port %-2u\n", port);
  if (s.port(port).native != nullptr)
    print_native_xstats(s, port);
  else
    print_ethdev_xstats(s.port(port).ethdev);
}

void print_port_info(Session& s, uint32_t port) {
  constexpr const char* stars = "*********************";
  const PortRef& p = s.port(port);
  std::printf("\n%s Infos for port %-2u %s\nMAC address: %s\nDevice name: %s\nDriver name: %s\n",
              stars, port, stars, text_of(mac_of(p)).c_str(), name_of(p).c_str(),
              p.native != nullptr ? "net_kilim" : device_of(p).c_str());
  if (p.native != nullptr) std::printf("RDMA device: %s\n", p.native->device().name());
  const Link link = link_of(p);
  std::printf(
      "Connect to socket: %d\nmemory allocation on the socket: %d\nLink status: %s\nLink "
      "speed: %s\nLink duplex: full-duplex\n",
      numa_node_of(p), numa_node_of(p), link.up ? "up" : "down", link.speed.c_str());
  if (p.native != nullptr)
    print_native_info(s, port);
  else
    print_ethdev_info(p.ethdev);
}

void print_summary_head(Session& s) {
  std::printf("Number of available ports: %zu\n%-4s %-17s %-12s %-14s %-8s %s\n", s.ports(), "Port",
              "MAC Address", "Name", "Driver", "Status", "Link");
}

void print_summary(Session& s, uint32_t port) {
  const PortRef& p = s.port(port);
  const Link link = link_of(p);
  std::printf("%-4u %s %-12s %-14s %-8s %s\n", port, text_of(mac_of(p)).c_str(), name_of(p).c_str(),
              p.native != nullptr ? "net_kilim" : device_of(p).c_str(), link.up ? "up" : "down",
              link.speed.c_str());
}

}  // namespace kilim::testpmd
