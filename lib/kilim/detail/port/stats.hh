// SPDX-License-Identifier: BSD-3-Clause
// What a port has counted. Values, any thread.
#pragma once

#include <cstdint>

namespace kilim::inline v1::port {

// Counts of all queues of a port; and what the device tells of frames that were lost around them
// (Port::losses()): rx_missed to rx_cut, and tx_lost.
struct PortStats {
  uint64_t rx_packets = 0, rx_bytes = 0;
  uint64_t tx_packets = 0, tx_bytes = 0;
  uint64_t tx_completed = 0;  // packets whose completion was seen
  uint64_t rx_joined = 0;     // TCP segments that became part of the packet before them (LRO)
  uint64_t rx_errors = 0;     // completions with an error
  uint64_t rx_too_long = 0;   // how many of them: frames longer than a packet buffer
  uint64_t rx_discarded = 0;  // frames that lay in a queue when it was stopped or recovered
  uint64_t rx_missed = 0;     // frames dropped for lack of a receive WQE or of room in front of it
  uint64_t rx_discards = 0;   // how many of them: frames lost in front of the device
  uint64_t rx_damaged = 0;    // frames that were not whole
  uint64_t rx_undersize = 0;  // frames shorter than an Ethernet header
  uint64_t rx_oversize = 0;   // frames longer than the port's MTU
  uint64_t rx_no_rule = 0;    // frames that no flow rule took, such as those for other addresses
  uint64_t rx_cut = 0;        // frames of a capture that holds only their beginning; not lost
  uint64_t rx_returned = 0;   // frames that went back to their capture instead, and come again
  uint64_t rx_no_buffer = 0;  // refills that found the pool empty: frames wait or are dropped
  uint64_t tx_errors = 0;     // completions with an error
  uint64_t tx_lost = 0;       // packets that the device took and the wire did not carry
  uint64_t keys_bound = 0, bind_errors = 0;
  uint64_t keys_ended = 0;   // invalidations that completed
  uint64_t recoveries = 0;   // queues that revive() has recovered
  uint64_t queues_down = 0;  // queues that are out of work now because of an error
  // What revive() has read of the device's events (device::DeviceEvents), of all users of it.
  uint64_t cq_overruns = 0;
  uint64_t queue_events = 0;
  uint64_t port_changes = 0;

  // What rte_eth_stats calls ierrors and oerrors: completions with an error, and frames that no
  // queue has seen because they were none, or that no wire carried.
  [[nodiscard]] uint64_t all_rx_errors() const noexcept {
    return rx_errors + rx_damaged + rx_undersize + rx_oversize;
  }
  [[nodiscard]] uint64_t all_tx_errors() const noexcept { return tx_errors + tx_lost; }

  PortStats& operator+=(const PortStats& o) noexcept;
};

// Counts of one queue since its port was started.
struct RxQueueStats {
  uint64_t packets = 0, bytes = 0;
  uint64_t errors = 0, too_long = 0, discarded = 0, no_buffer = 0;
  uint64_t compressed = 0;  // packets that shared entries of the completion queue
  uint64_t joined = 0;      // as PortStats::rx_joined
  bool down = false;        // because of an error
  bool stopped = false;     // by stop_rx()
};
struct TxQueueStats {
  uint64_t packets = 0, bytes = 0;
  uint64_t completed = 0, errors = 0;
  bool down = false;
};

}  // namespace kilim::inline v1::port
