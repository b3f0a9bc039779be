// SPDX-License-Identifier: BSD-3-Clause
// An ethdev's statistics: sums, of each queue, and by name. Read by any process from the memory
// that all share; what needs the device is the primary process's.
#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <rte_eal.h>

#include "net/kilim/ethdev.hh"

namespace kilim::net {
namespace {

bool is_primary() noexcept {
  return rte_eal_process_type() == RTE_PROC_PRIMARY;
}

uint64_t since(const Counter& now, const Counter& base) noexcept {
  return now.read() - base.read();
}

// What is counted of a queue beyond packets and bytes, which ethdev itself names.
template <typename Counts>
struct Name {
  const char* name;
  Counter Counts::*count;
};
constexpr Name<RxCounts> rx_names[] = {
    {"failures", &RxCounts::errors},       {"too_long", &RxCounts::too_long},
    {"no_mbuf", &RxCounts::no_mbuf},       {"compressed", &RxCounts::compressed},
    {"joined", &RxCounts::joined},         {"discarded", &RxCounts::discarded},
    {"recoveries", &RxCounts::recoveries},
};
constexpr Name<TxCounts> tx_names[] = {
    {"dropped", &TxCounts::errors},
    {"failures", &TxCounts::failures},
    {"lost", &TxCounts::lost},
    {"recoveries", &TxCounts::recoveries},
};
// What is counted of the port beside these queues, and what its xstat is called: the names of
// DPDK's mlx5 driver (mlx5_ethdev_os.c, mlx5_counters_init), and others' where it has none. Without
// a name it is part of ethdev's own.
struct PortCount {
  uint64_t port::PortStats::*value;
  const char* name = nullptr;
};
constexpr PortCount of_port[] = {
    {&port::PortStats::rx_missed},
    {&port::PortStats::rx_discards, "rx_phy_discard_packets"},
    {&port::PortStats::rx_damaged, "rx_phy_crc_errors"},
    {&port::PortStats::rx_undersize, "rx_undersize_errors"},
    {&port::PortStats::rx_oversize, "rx_oversize_errors"},
    {&port::PortStats::rx_no_rule, "rx_steer_missed_packets"},
    {&port::PortStats::rx_cut, "rx_cut_records"},
    {&port::PortStats::rx_returned, "rx_returned_records"},
    {&port::PortStats::tx_lost, "tx_phy_discard_packets"},
    {&port::PortStats::cq_overruns, "cq_overruns"},
    {&port::PortStats::queue_events, "queue_events"},
    {&port::PortStats::port_changes, "port_changes"},
    {&port::PortStats::rx_packets},
    {&port::PortStats::rx_bytes},
    {&port::PortStats::rx_errors},
    {&port::PortStats::rx_no_buffer},
    {&port::PortStats::tx_packets},
    {&port::PortStats::tx_bytes},
    {&port::PortStats::tx_errors},
};
static_assert(std::size(of_port) == port_counts);
constexpr std::size_t named_counts = 11;  // of those

// Since the last rte_eth_stats_reset().
port::PortStats read_of_port(const SharedPort& s) noexcept {
  port::PortStats p;
  for (std::size_t i = 0; i < port_counts; i++)
    p.*of_port[i].value = s.of_port[i].read() - s.of_port_base[i];
  return p;
}

constexpr const char* port_names[] = {"rx_out_of_buffer", "tx_dropped_of_secondaries", "rx_joined"};

// Calls each(name, queue or -1, value) for all of them, in one order.
template <typename Each>
void for_all(rte_eth_dev* dev, Each each) {
  const SharedPort& s = shared_of(dev);
  const port::PortStats port = read_of_port(s);
  each("", port_names[0], -1, port.rx_missed - port.rx_discards);
  each("", port_names[1], -1, __atomic_load_n(&s.secondary_dropped, __ATOMIC_RELAXED));
  uint64_t joined = 0;
  for (int q = 0; q < dev->data->nb_rx_queues; q++)
    joined += since(s.rx[q].joined, s.rx_base[q].joined);
  each("", port_names[2], -1, joined);
  for (const PortCount& c : of_port)
    if (c.name != nullptr) each("", c.name, -1, port.*c.value);
  for (int q = 0; q < dev->data->nb_rx_queues; q++)
    for (const auto& n : rx_names)
      each("rx", n.name, q, since(s.rx[q].*n.count, s.rx_base[q].*n.count));
  for (int q = 0; q < dev->data->nb_tx_queues; q++)
    for (const auto& n : tx_names)
      each("tx", n.name, q, since(s.tx[q].*n.count, s.tx_base[q].*n.count));
}

unsigned how_many(const rte_eth_dev* dev) noexcept {
  return static_cast<unsigned>(std::size(port_names) + named_counts +
                               dev->data->nb_rx_queues * std::size(rx_names) +
                               dev->data->nb_tx_queues * std::size(tx_names));
}

}  // namespace

void Ethdev::update_port_counts() noexcept {
  const std::lock_guard guard(lock_);
  heed_events();
  port::PortStats now = port_.all_stats();
  now.cq_overruns += told_.cq_overruns;
  now.queue_events += told_.queue_errors;
  now.port_changes += told_.port_changes;
  for (std::size_t i = 0; i < port_counts; i++) {
    const uint64_t value = now.*of_port[i].value, known = shared_->of_port[i].read();
    if (value > known) shared_->of_port[i].add(value - known);
  }
}

QueueSums rx_sums(const rte_eth_dev* dev, int queue) noexcept {
  const SharedPort& s = shared_of(dev);
  const RxCounts &now = s.rx[queue], &base = s.rx_base[queue];
  return {since(now.packets, base.packets), since(now.bytes, base.bytes),
          since(now.errors, base.errors)};
}

QueueSums tx_sums(const rte_eth_dev* dev, int queue) noexcept {
  const SharedPort& s = shared_of(dev);
  const TxCounts &now = s.tx[queue], &base = s.tx_base[queue];
  return {since(now.packets, base.packets), since(now.bytes, base.bytes),
          since(now.errors, base.errors) + since(now.lost, base.lost)};
}

// A frame that is lost in front of the queues is missed where there was no room, an error where it
// was none. The native port's packets count too: a program that uses it has no other ethdev.
void read_sums(rte_eth_dev* dev, rte_eth_stats& stats) noexcept {
  if (is_primary()) ethdev_of(dev).update_port_counts();
  const SharedPort& s = shared_of(dev);
  const port::PortStats port = read_of_port(s);
  stats.ipackets = port.rx_packets;
  stats.ibytes = port.rx_bytes;
  stats.opackets = port.tx_packets;
  stats.obytes = port.tx_bytes;
  stats.ierrors = port.all_rx_errors();
  stats.oerrors = port.all_tx_errors();
  stats.imissed = port.rx_missed;
  stats.rx_nombuf = port.rx_no_buffer;
  for (int q = 0; q < dev->data->nb_rx_queues; q++) {
    const QueueSums sums = rx_sums(dev, q);
    stats.ipackets += sums.packets;
    stats.ibytes += sums.bytes;
    stats.ierrors += sums.errors;
    stats.rx_nombuf += since(s.rx[q].no_mbuf, s.rx_base[q].no_mbuf);
  }
  for (int q = 0; q < dev->data->nb_tx_queues; q++) {
    const QueueSums sums = tx_sums(dev, q);
    stats.opackets += sums.packets;
    stats.obytes += sums.bytes;
    stats.oerrors += sums.errors;
  }
}

int reset_stats(rte_eth_dev* dev) {
  if (is_primary()) ethdev_of(dev).update_port_counts();
  SharedPort& s = shared_of(dev);
  for (int q = 0; q < dev->data->nb_rx_queues; q++) s.rx_base[q] = s.rx[q];
  for (int q = 0; q < dev->data->nb_tx_queues; q++) s.tx_base[q] = s.tx[q];
  for (std::size_t i = 0; i < port_counts; i++) s.of_port_base[i] = s.of_port[i].read();
  return 0;
}

int read_xstats(rte_eth_dev* dev, rte_eth_xstat* stats, unsigned count) {
  const unsigned all = how_many(dev);
  if (stats == nullptr || count < all) return static_cast<int>(all);
  if (is_primary()) ethdev_of(dev).update_port_counts();
  unsigned i = 0;
  for_all(dev, [&](const char*, const char*, int, uint64_t value) {
    stats[i] = {i, value};
    i++;
  });
  return static_cast<int>(all);
}

int read_xstat_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned count) {
  const unsigned all = how_many(dev);
  if (names == nullptr || count < all) return static_cast<int>(all);
  unsigned i = 0;
  for_all(dev, [&](const char* way, const char* name, int queue, uint64_t) {
    if (queue < 0)
      (void)std::snprintf(names[i].name, sizeof names[i].name, "%s", name);
    else
      (void)std::snprintf(names[i].name, sizeof names[i].name, "%s_q%d_%s", way, queue, name);
    i++;
  });
  return static_cast<int>(all);
}

}  // namespace kilim::net
