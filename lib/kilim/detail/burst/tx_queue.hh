// SPDX-License-Identifier: BSD-3-Clause
// TxQueue: one send queue of raw packets as a burst uses it, and what is counted for it. Owner: the
// worker of the queue; no other thread. Its maker keeps the memory.
#pragma once

#include <cstdint>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/flag.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/burst/sent_ring.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/error_log.hh"
#include "kilim/detail/queue/eth_wqe.hh"
#include "kilim/detail/queue/sq.hh"

namespace kilim::inline v1::burst {

// Counts since the queue was made. Its worker adds, any thread reads.
struct TxCounters {
  Counter packets, bytes;
  Counter completed;  // packets whose completion was seen
  Counter errors;     // completions with an error
  Counter failures;   // times that the queue was ended by one
};

// Keys of gathered packets by slot, and the free slots. The queue's worker and its PacketGather, on
// one thread, call push_free() and pop_free(); any thread reads how many are free.
struct MkeySlots {
  const Lkey* keys = nullptr;
  uint32_t* free = nullptr;  // a stack of slots
  uint32_t free_count = 0;
  pool::BufferCache* headers = nullptr;  // gets pieces with Handle::more back: header buffers

  void push_free(uint32_t slot) noexcept {
    free[free_count] = slot;
    set_free_count(free_count + 1);
  }
  // The slot that the next pop_free() takes; one is free.
  [[nodiscard]] uint32_t top() const noexcept { return free[free_count - 1]; }
  void pop_free() noexcept { set_free_count(free_count - 1); }
  // Any thread. The count orders no other data.
  [[nodiscard]] uint32_t read_free_count() const noexcept {
    return __atomic_load_n(&free_count, __ATOMIC_RELAXED);
  }

 private:
  void set_free_count(uint32_t n) noexcept { __atomic_store_n(&free_count, n, __ATOMIC_RELAXED); }
};

// What packets of a queue with TxConfig::offloads can have: what its device does, as far as the
// queue was set up for it.
struct TxOffer {
  bool words = false;       // packets' words count (Handle::offload)
  bool tags = false;        // the device puts tags in; else they go with an inlined header
  uint8_t checksums = 0;    // those of a packet's word that count
  uint16_t min_inline = 0;  // bytes of each frame's start that lie in its WQE
  uint32_t max_tso = 0;     // bytes of payload of a packet that is segmented; 0: none is
};

// One send queue as a burst uses it. Its maker keeps queue memory and pool alive.
struct TxQueue {
  queue::Sq sq;
  queue::Cq cq;  // at least as many entries as the send queue has blocks
  SentRing sent;
  pool::BufferCache* cache;  // of the same worker
  pool::Arena arena;
  Lkey key;                                   // of the arena, for this device
  uint8_t offload = queue::EthOffload::none;  // checksums that the device fills in
  Flag failed{};                              // set by an error; the control lcore clears it
  MkeySlots* slots = nullptr;                 // of gathered packets
  pool::BufferCache* headers = nullptr;       // with TxConfig::two_pools; of the same worker
  TxCounters counters{};
  TxOffer offer{};
  queue::ErrorLog* errors = nullptr;  // who keeps the last error; null: nobody
};

}  // namespace kilim::inline v1::burst
