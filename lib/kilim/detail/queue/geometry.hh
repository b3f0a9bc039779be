// SPDX-License-Identifier: BSD-3-Clause
// Addresses and sizes of a queue's memory, as the device reports them at set-up; the library reads
// and writes there directly. Plain values: a test can use an array instead of a device. The memory
// belongs to whoever made the queue and outlives Sq, Rq and Cq. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::inline v1::queue {

// A send queue: a ring of 64-byte basic blocks (WQEBBs).
struct SqGeometry {
  std::byte* buf = nullptr;       // the first basic block, 64-byte aligned
  uint32_t wqebb_count = 0;       // a power of two, at most 32768
  be32* record = nullptr;         // the send word of the queue pair's doorbell record
  std::byte* doorbell = nullptr;  // register that takes the first 8 bytes of the last WQE
  Qpn qpn;
  uint32_t max_message =
      prm::max_segment_bytes;  // bytes of the longest message that the port sends
};

// A receive queue: a ring of WQEs, each a list of data segments.
struct RqGeometry {
  std::byte* buf = nullptr;  // the first WQE, 16-byte aligned
  uint32_t wqe_count = 0;    // a power of two, at most 32768
  uint32_t stride = 0;       // bytes of one WQE, a multiple of 16
  be32* record = nullptr;    // the receive word of the doorbell record
};

// A shared receive queue: a linked list of WQEs, each with the number of the next one in its first
// segment. The last WQE of the list never holds a receive.
struct SrqGeometry {
  std::byte* buf = nullptr;  // WQE 0, 16-byte aligned
  uint32_t wqe_count = 0;    // linked in the order 0, 1, 2 ... when the queue is made
  uint32_t stride = 0;       // bytes of one WQE, the first segment of 16 bytes included
  be32* record = nullptr;    // the doorbell record: number of receives posted
  uint32_t srqn = 0;
};

// A completion queue. An entry of 128 bytes has its CQE in the second half.
struct CqGeometry {
  std::byte* buf = nullptr;  // the first entry, 64-byte aligned
  uint32_t cqe_count = 0;    // entries, a power of two
  uint32_t cqe_bytes = 64;   // of an entry, 64 or 128
  be32* record = nullptr;    // the consumer index word
  Cqn cqn;
  std::byte* doorbell = nullptr;  // register that takes arm word and CQN; null: no events
};

inline constexpr uint32_t max_ring_entries = 32768;  // half the range of the 16-bit counters

constexpr bool is_power_of_two(uint32_t n) noexcept {
  return n != 0 && (n & (n - 1)) == 0;
}

}  // namespace kilim::inline v1::queue
