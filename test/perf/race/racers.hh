// SPDX-License-Identifier: BSD-3-Clause
// Racer: somebody who forwards a burst of 32 packets from one queue to another. Its queues are
// served by a Nic, or are a port of a driver that has none of a card (for context). One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rte_mbuf.h>

#include "perf/race/mlx5_port.hh"

namespace kilim::race {

inline constexpr uint16_t burst_packets = 32;

struct Racer {
  std::string name;
  std::shared_ptr<void> self;
  // What is measured: a burst is received, both addresses written (mac), a burst sent. Returns the
  // packets sent. Never inlined.
  uint32_t (*io)(void*) = nullptr;
  uint32_t (*mac)(void*) = nullptr;
  // Before each: the device's work. Returns the packets that wait.
  uint32_t (*serve)(void*, uint32_t bytes) = nullptr;
};

// What both addresses of a frame become, as mode mac of DPDK's testpmd writes them.
struct NewAddresses {
  uint8_t both[12]{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1};
};
inline constexpr NewAddresses new_addresses;

// Two functions of an ethdev, and their queues.
struct MbufBursts {
  uint16_t (*receive)(void*, rte_mbuf**, uint16_t);
  void* rx;
  uint16_t (*send)(void*, rte_mbuf**, uint16_t);
  void* tx;
  rte_mbuf* packets[burst_packets];
};

template <bool mac>
inline uint32_t forward_mbufs(MbufBursts& b) {
  const uint16_t n = b.receive(b.rx, b.packets, burst_packets);
  if constexpr (mac) {
    for (uint16_t i = 0; i < n; i++)
      __builtin_memcpy(rte_pktmbuf_mtod(b.packets[i], void*), new_addresses.both,
                       sizeof new_addresses.both);
  }
  return b.send(b.tx, b.packets, n);
}

// Each adds its racers; returns an empty string, or what failed.
std::string add_native(std::vector<Racer>& racers);
std::string add_mbufs(std::vector<Racer>& racers);  // net_kilim's and net_mlx5's
// A port of EAL's first --vdev, whose packets come from its second one where there is one.
std::string add_context(std::vector<Racer>& racers);

}  // namespace kilim::race
