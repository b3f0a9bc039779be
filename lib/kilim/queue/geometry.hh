// SPDX-License-Identifier: BSD-3-Clause
// Where a queue lies in memory, as the device says it at set-up. From then on the library reads and
// writes there by itself. Plain values: a test gives one over an array and needs no device.
// The memory belongs to whoever made the queue and outlives Sq, Rq and Cq. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/be.hh"
#include "kilim/base/ident.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::queue {

// A send queue: a ring of 64-byte basic blocks (WQEBBs).
struct SqGeometry {
  std::byte* buf = nullptr;       // the first basic block, 64-byte aligned
  uint32_t wqebb_count = 0;       // a power of two, at most 32768
  be32* record = nullptr;         // the send word of the queue pair's doorbell record
  std::byte* doorbell = nullptr;  // register that takes the first 8 bytes of the last WQE
  Qpn qpn;
  uint32_t max_message = prm::max_segment_bytes;  // bytes that the device's port sends at a time
};

// A receive queue: a ring of WQEs, each a list of data segments.
struct RqGeometry {
  std::byte* buf = nullptr;
  uint32_t wqe_count = 0;  // a power of two, at most 32768
  uint32_t stride = 0;     // bytes of one WQE, a multiple of 16
  be32* record = nullptr;  // the receive word of the doorbell record
};

// A shared receive queue: a list of WQEs in a ring's memory, each headed by the number of the next.
// One of them is always the list's end and holds no receive.
struct SrqGeometry {
  std::byte* buf = nullptr;
  uint32_t wqe_count = 0;  // linked 0, 1, 2 and so on when the queue is made
  uint32_t stride = 0;     // bytes of one WQE, its head of 16 bytes included
  be32* record = nullptr;  // counts what was posted
  uint32_t srqn = 0;
};

// A completion queue. In entries of 128 bytes the CQE is the second half.
struct CqGeometry {
  std::byte* buf = nullptr;
  uint32_t cqe_count = 0;  // a power of two
  uint32_t cqe_bytes = 64;
  be32* record = nullptr;  // the consumer index word
  Cqn cqn;
};

inline constexpr uint32_t max_ring_entries = 32768;  // half the range of the 16-bit counters

constexpr bool is_power_of_two(uint32_t n) noexcept {
  return n != 0 && (n & (n - 1)) == 0;
}

}  // namespace kilim::queue
