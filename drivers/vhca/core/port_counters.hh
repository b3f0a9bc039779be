// SPDX-License-Identifier: BSD-3-Clause
// What a port has carried and lost, and why. Written with the adapter's lock held; a plain value.
#pragma once

#include <cstdint>

namespace kilim::vhca {

// Since the adapter was made; frames, and bytes without FCS. Counters of sysfs are made of them.
struct PortCounters {
  uint64_t rx_packets = 0, rx_bytes = 0;  // delivered to a queue at least
  uint64_t rx_copies = 0;                 // further deliveries of multicast and sniffed frames
  uint64_t rx_pauses = 0;                 // frames that had to wait for a receive WQE
  uint64_t rx_no_rule = 0;                // dropped: no flow rule wants it
  uint64_t rx_filtered = 0;               // dropped: a flow rule says so
  uint64_t rx_out_of_buffer = 0;          // dropped: no receive WQE, no flow control
  uint64_t rx_too_long = 0;               // dropped: longer than the receive WQE
  uint64_t rx_queue_down = 0;             // dropped: the queue is not ready, or went to error
  uint64_t tx_packets = 0, tx_bytes = 0;  // taken by the wire
  uint64_t rx_oversize = 0;               // dropped: longer than the port's MTU
  uint64_t tx_waits = 0;                  // times a frame found the wire full
  uint64_t tx_filtered = 0;               // dropped: a rule of what leaves says so
  uint64_t tx_drops = 0;                  // no wire, or the wire does not carry such a frame
  uint64_t wire_rx_drops = 0;             // lost on the wire: by the kernel, malformed
};

}  // namespace kilim::vhca
