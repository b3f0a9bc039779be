// SPDX-License-Identifier: BSD-3-Clause
// What a port has counted. Values, any thread.
#pragma once

#include <cstdint>

namespace kilim::port {

// Counts of all queues of a port.
struct PortStats {
  uint64_t rx_packets = 0, rx_bytes = 0;
  uint64_t tx_packets = 0, tx_bytes = 0;
  uint64_t tx_completed = 0;  // packets whose completion was seen
  uint64_t rx_joined = 0;     // TCP segments that became part of the packet before them (LRO)
  uint64_t rx_errors = 0;     // completions with an error
  uint64_t rx_too_long = 0;   // how many of them: frames longer than a packet buffer
  uint64_t rx_discarded = 0;  // frames that lay in a queue when it was stopped or recovered
  uint64_t rx_missed = 0;     // frames that the device dropped for lack of a receive WQE: missed()
  uint64_t rx_no_buffer = 0;  // refills that found the pool empty: frames wait or are dropped
  uint64_t tx_errors = 0;     // completions with an error
  uint64_t keys_bound = 0, bind_errors = 0;
  uint64_t keys_ended = 0;   // invalidations that completed
  uint64_t recoveries = 0;   // queues that revive() has recovered
  uint64_t queues_down = 0;  // queues that are out of work now because of an error

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

}  // namespace kilim::port
