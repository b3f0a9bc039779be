// SPDX-License-Identifier: BSD-3-Clause
// Racer: somebody who forwards a burst of 32 packets from one queue to another, made anew for each
// setting. Its queues are served by a Nic, or are a port of a driver that has none of a card (for
// context). One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rte_mbuf.h>

#include "perf/race/nic.hh"
#include "perf/race/setting.hh"

namespace kilim::race {

// What a side told the application about a packet.
struct Seen {
  uint32_t frame = 0;  // number that the Nic wrote into it
  uint32_t bytes = 0, type = 0, hash = 0;
  uint64_t flags = 0;    // RTE_MBUF_F_RX_*
  bool is_whole = true;  // one buffer, nobody else's, data where they belong
};

struct Racer {
  std::string name;
  std::shared_ptr<void> self;
  // What is measured: a burst is received, the application's work done, a burst sent. Returns the
  // packets sent. Never inlined.
  uint32_t (*forward)(void*) = nullptr;
  // Receives up to as many, tells of each and frees them.
  uint32_t (*receive)(void*, std::span<Seen>) = nullptr;
  Nic* nic = nullptr;
  // Before each burst, where there is no Nic. Returns the packets that wait.
  uint32_t (*serve)(void*, uint32_t bytes) = nullptr;
  // True: what its vectors tell of a hash does not depend on whether there is one.
  bool always_hash = false;
  // True: it does not look where a block crosses its rings' end, and errors stop its queue.
  bool is_peer = false;
  std::string bursts;  // names of its functions, where it has names
};

// What both addresses of a frame become, as mode mac of DPDK's testpmd writes them.
struct NewAddresses {
  uint8_t both[12]{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1};
};
inline constexpr NewAddresses new_addresses;

// The job `read` leaves here what it computed from all fields, so that nobody leaves them out.
inline volatile uint64_t sink;
inline constexpr std::size_t ipv4_destination = 30;  // in a frame without a tag
inline constexpr uint64_t sums_good = RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
constexpr bool asks(Ask a, uint32_t i) noexcept {
  return a != Ask::nothing && (a != Ask::half_sums || i % 2 != 0);
}

// Each adds its racers; returns an empty string, or what failed.
std::string add_native(std::vector<Racer>& racers, const Setting& s);
std::string add_mbufs(std::vector<Racer>& racers, const Setting& s);  // net_kilim's and net_mlx5's
// A port of EAL's first --vdev, whose packets come from its second one where there is one.
std::string add_context(std::vector<Racer>& racers, const Setting& s);

}  // namespace kilim::race
