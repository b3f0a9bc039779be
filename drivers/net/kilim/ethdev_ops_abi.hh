// SPDX-License-Identifier: BSD-3-Clause
// The three operations whose signature differs between DPDK's releases
// (net/kilim/dpdk_releases.hh), each under every signature that it has had: the table of operations
// takes the one that its member has the type of, and nothing makes the others. Threads: as ethdev's
// own functions.
#pragma once

#include <iterator>
#include <type_traits>

#include "net/kilim/ethdev.hh"

struct eth_queue_stats;

namespace kilim::net {

// Until 23.11 the list ends at RTE_PTYPE_UNKNOWN; from 24.11 on its length is told and counts that
// not.
inline const uint32_t* tell_types(rte_eth_dev*) {
  return packet_types().data();
}
inline const uint32_t* tell_types(rte_eth_dev*, size_t* count) {
  *count = packet_types().size() - 1;
  return packet_types().data();
}

// Puts the counts of each queue where this release has them, for as many queues as it has room.
template <typename Counts>
void read_queues(const rte_eth_dev* dev, Counts& counts) noexcept {
  constexpr int room = std::size(decltype(counts.q_ipackets){});
  for (int q = 0; q < dev->data->nb_rx_queues && q < room; q++) {
    const QueueSums sums = rx_sums(dev, q);
    counts.q_ipackets[q] = sums.packets;
    counts.q_ibytes[q] = sums.bytes;
    counts.q_errors[q] = sums.errors;
  }
  for (int q = 0; q < dev->data->nb_tx_queues && q < room; q++) {
    const QueueSums sums = tx_sums(dev, q);
    counts.q_opackets[q] = sums.packets;
    counts.q_obytes[q] = sums.bytes;
  }
}

// Until 24.11 they are members of rte_eth_stats; in 25.11 they are a third argument, or null.
template <typename Stats = rte_eth_stats>
int read_stats(rte_eth_dev* dev, Stats* stats) {
  read_sums(dev, *stats);
  read_queues(dev, *stats);
  return 0;
}
template <typename Stats = rte_eth_stats, typename Queues = eth_queue_stats>
int read_stats(rte_eth_dev* dev, Stats* stats, Queues* queues) {
  read_sums(dev, *stats);
  if (queues != nullptr) read_queues(dev, *queues);
  return 0;
}

// A uint32_t until 24.11, an int in 25.11.
template <typename Count = std::invoke_result_t<eth_rx_queue_count_t, void*>>
Count count_rx(void* queue) {
  return static_cast<Count>(waiting_packets(queue));
}

}  // namespace kilim::net
