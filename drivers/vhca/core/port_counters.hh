// SPDX-License-Identifier: BSD-3-Clause
// What a port has carried and lost, and why. Written with the adapter's lock held; a plain value.
#pragma once

#include <array>
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
  uint64_t rx_returned = 0;               // of a recording: went back with their queues, unread
  uint64_t rx_oversize = 0;               // dropped: longer than the port's MTU
  uint64_t tx_waits = 0;                  // times a frame found the wire full
  uint64_t tx_filtered = 0;               // dropped: a rule of what leaves says so
  uint64_t tx_drops = 0;           // no wire, the wire does not carry such a frame, or has lost it
  uint64_t wire_rx_drops = 0;      // lost in front of the wire, as the kernel says
  uint64_t wire_rx_malformed = 0;  // not a frame, or one that cannot be made whole
  uint64_t wire_rx_too_short = 0;  // shorter than an Ethernet header
  uint64_t wire_rx_cut = 0;        // not lost: a capture holds only the frame's beginning
};

// What a port has lost, by cause, under the names of `ethtool -S` of mlx5 (Linux, Documentation/
// networking/device_drivers/ethernet/mellanox/mlx5/counters.rst). "rx_cut_records" and
// "rx_returned_records" are our own: cards replay no captures.
struct PortLoss {
  const char* name;
  uint64_t PortCounters::*value;
};
inline constexpr std::array port_losses{
    PortLoss{"rx_discards_phy", &PortCounters::wire_rx_drops},
    PortLoss{"rx_crc_errors_phy", &PortCounters::wire_rx_malformed},
    PortLoss{"rx_undersize_pkts_phy", &PortCounters::wire_rx_too_short},
    PortLoss{"rx_oversize_pkts_phy", &PortCounters::rx_oversize},
    PortLoss{"rx_steer_missed_packets", &PortCounters::rx_no_rule},
    PortLoss{"rx_if_down_packets", &PortCounters::rx_queue_down},
    PortLoss{"rx_cut_records", &PortCounters::wire_rx_cut},
    PortLoss{"rx_returned_records", &PortCounters::rx_returned},
    PortLoss{"tx_discards_phy", &PortCounters::tx_drops},
};

}  // namespace kilim::vhca
