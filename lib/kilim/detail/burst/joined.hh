// SPDX-License-Identifier: BSD-3-Clause
// What a device leaves to do where it received the segments of a TCP stream as one frame (LRO): the
// headers are the first segment's, and the completion says what the others changed. Any thread.
// Never allocates, blocks, logs or calls the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kilim/detail/base/cold.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::inline v1::burst {

// How a joined frame divides into segments again.
struct JoinedFrame {
  uint16_t headers = 0;  // bytes of Ethernet's, IP's and TCP's
  uint16_t mss = 0;      // bytes of payload of a segment, rounded up; 0: nothing was mended
};

// True: the frame has several segments (DPDK drivers/net/mlx5/mlx5_rx.c, rxq_cq_to_mbuf()).
inline bool is_joined(const prm::Cqe& e) noexcept {
  return prm::cqe::lro_num_seg::get(e) > 1;
}

// Makes the headers of a joined frame of `length` bytes its own: lengths, the least time to live,
// the last acknowledgement and window, PSH, and both checksums. `head` is where its first bytes
// lie. What is no TCP over IPv4 or IPv6, or is cut off there, stays as it is.
KILIM_COLD JoinedFrame mend_joined(std::span<std::byte> head, uint32_t length,
                                   const prm::Cqe& e) noexcept;

}  // namespace kilim::inline v1::burst
