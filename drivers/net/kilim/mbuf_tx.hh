// SPDX-License-Identifier: BSD-3-Clause
// A transmit queue that sends mbufs from where they lie: any mempool's, clones, external buffers,
// chains. A completion frees all mbufs of its burst. Lies in memory that processes share, zeroed
// before; the control path (net/kilim/ethdev_txq.cc) fills it in. Owner: the lcore that the
// application sends on. A burst never locks or calls the system, but where it meets memory without
// a key, and after an error.
#pragma once

#include <cstdint>
#include <optional>

#include <rte_mbuf.h>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/flag.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/sq.hh"
#include "kilim/detail/worker/poller.hh"
#include "net/kilim/mbuf_memory.hh"
#include "net/kilim/mbuf_rx.hh"

namespace kilim::net {

// Any process reads them; since the port was made.
struct TxCounts {
  Counter packets, bytes;
  Counter errors;    // packets that were dropped: no frames, without a key, or not to be expressed
  Counter failures;  // completions with an error; the queue is recovered
  Counter lost;      // packets under way when a queue was recovered or stopped
  Counter recoveries;
};

struct MbufTx {
  TxCounts* counts;
  std::optional<queue::Sq> sq;
  std::optional<queue::Cq> cq;
  rte_mbuf** sent;      // heads of the packets under way
  uint32_t* ends;       // of the bursts under way: where their packets end in `sent`
  uint32_t mask;        // of `sent`
  uint32_t end_mask;    // of `ends`
  uint32_t head, tail;  // of `sent`
  uint32_t end_head, end_tail;
  uint32_t most;         // packets of one WQE; 1: the device has no WQEs of several
  uint32_t min_inline;   // bytes of a frame's start that WQEs must have
  uint32_t max_inline;   // frames up to this length lie in their WQEs
  uint32_t max_tso;      // bytes of payload; 0: none
  uint32_t max_frame;    // longest_frame()
  uint32_t plain_least;  // from this length on a frame is no runt and lies behind a pointer
  bool tags;             // the device puts VLAN tags in
  bool checksums;
  bool fast_free;  // RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE was asked for
  bool chains;     // a packet of several mbufs was sent: there is no fast free any more
  Flag down;       // as MbufRx::down
  MbufKeys keys;
  worker::Poller poller;
  Ethdev* port;
  uint16_t number;              // of the queue
  uint64_t* secondary_dropped;  // of the port
};

// Bytes of the longest frame that the port sends, its tags included. The control path changes it
// beside bursts (rte_eth_dev_set_mtu()).
inline uint32_t longest_frame(const MbufTx& q) noexcept {
  return __atomic_load_n(&q.max_frame, __ATOMIC_RELAXED);
}
inline void set_longest_frame(MbufTx& q, uint32_t bytes) noexcept {
  __atomic_store_n(&q.max_frame, bytes, __ATOMIC_RELAXED);
}

// One call for a transmit queue. rte_ethdev.h binds a queue to no thread: one lcore sends on it,
// another one cleans it or sends later on, never both at a time. So nobody owns it between calls;
// within one the asserts of base/owner.hh stand.
struct TxVisit {
  explicit TxVisit(MbufTx& of) noexcept : q(of) {}
  TxVisit(const TxVisit&) = delete;
  TxVisit& operator=(const TxVisit&) = delete;
  ~TxVisit() {
#ifndef NDEBUG
    if (q.sq) q.sq->release_owner();
    if (q.cq) q.cq->release_owner();
#endif
  }
  MbufTx& q;
};

// `polled`: it runs the queue's device first.
MbufBurst select_mbuf_tx(bool polled) noexcept;
// How many packets at the front ask for nothing but what the queue does (rte_eth_tx_prepare()); the
// reason is in rte_errno. Nothing needs to be filled in: the device computes whole checksums.
uint16_t prepare_mbuf_tx(void* queue, rte_mbuf** mbufs, uint16_t count) noexcept;

// Frees packets whose completion came; returns how many.
uint32_t reclaim_mbuf_tx(MbufTx& q) noexcept;
// Frees all packets under way; the device reads them no more. Returns how many.
uint32_t empty_mbuf_tx(MbufTx& q) noexcept;

}  // namespace kilim::net
