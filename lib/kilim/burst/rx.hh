// SPDX-License-Identifier: BSD-3-Clause
// Receive burst: turns completions into handles and posts new buffers in bulk.
// Owner: the queue's worker. Never allocates from a heap, blocks, logs or calls the system. Read
// with burst/tx.hh.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/base/counter.hh"
#include "kilim/base/flag.hh"
#include "kilim/base/ident.hh"
#include "kilim/burst/config.hh"
#include "kilim/pool/pool.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/queue/cq.hh"
#include "kilim/queue/rq.hh"
#include "kilim/queue/sge.hh"

namespace kilim::burst {

// Counts since the queue was made. Its worker adds, any thread reads.
struct RxCounters {
  Counter packets, bytes;
  Counter errors;     // completions with an error; their buffers were freed
  Counter too_long;   // how many of the errors: frames longer than a buffer; the queue goes on
  Counter no_buffer;  // refills that found the pool empty
  Counter failures;   // times that an error ended the queue
};

// One receive queue as a burst uses it. Its maker keeps queue memory and pool alive.
struct RxQueue {
  queue::Rq rq;  // a WQE's wr id is the index of its buffer
  queue::Cq cq;
  pool::BufferCache* cache;  // of the same worker
  pool::Arena arena;
  Lkey key;                 // of the arena, for this device
  uint16_t head_lines = 0;  // 64-byte lines left free before the data
  uint16_t refill_at = 32;  // fewest free WQEs for which a doorbell is rung
  Flag failed{};            // the device flushed the queue; the control lcore recovers it
  RxCounters counters{};
};

// Posts buffers until the receive ring is full or the pool is empty, and rings once; returns how
// many. For RxQueue and RecvQueue.
template <typename Queue>
uint32_t rx_refill(Queue& q) noexcept {
  constexpr uint32_t chunk = 64;
  const uint32_t length = q.arena.stride() - q.head_lines * static_cast<uint32_t>(cacheline_bytes);
  uint32_t posted = 0;
  for (uint32_t want = q.rq.room(); want != 0;) {
    uint32_t indices[chunk];
    const uint32_t ask = want < chunk ? want : chunk;
    const uint32_t got = q.cache->alloc_indices({indices, ask});
    for (uint32_t i = 0; i < got; i++) {
      const pool::Handle h = pool::make_handle(indices[i], 0, q.head_lines);
      (void)q.rq.post({q.arena.address(h).value(), length, q.key}, indices[i]);
    }
    posted += got;
    want -= got;
    if (got < ask) {
      q.counters.no_buffer.add(1);
      break;
    }
  }
  if (posted != 0) q.rq.ring();
  return posted;
}

namespace detail {

inline void write_side(pool::SideRecord& r, const prm::Cqe& e) noexcept {
  r.rx_hash = e.rx_hash_result.host();
  r.vlan = e.vlan_info.host();
  r.packet_type = e.l4_hdr_type_etc;
  r.checksum_ok = e.hds_ip_ext & (prm::cqe::l2_ok | prm::cqe::l3_ok | prm::cqe::l4_ok);
  r.timestamp = e.timestamp.host();
}

// Handles an error completion: frees its buffer. A flush error means that the queue has failed.
[[gnu::noinline, gnu::cold]] inline void rx_error(RxQueue& q, const prm::Cqe& e) noexcept {
  const queue::Completion c = queue::decode_error(e);
  const auto index = static_cast<uint32_t>(q.rq.wr_id(c.wqe_counter));
  q.cache->free_indices({&index, 1});
  if (c.syndrome == prm::Syndrome::local_length) q.counters.too_long.add(1);
  if (c.syndrome != prm::Syndrome::wr_flush) return q.counters.errors.add(1);
  if (!q.failed) q.counters.failures.add(1);
  q.failed.set(true);
}

}  // namespace detail

// Writes up to out.size() received packets to `out`, the oldest first, and returns how many. The
// caller holds them from now on.
template <RxConfig C>
uint32_t rx_burst(RxQueue& q, std::span<pool::Handle> out) noexcept {
  if (q.failed) [[unlikely]]
    return 0;
  uint32_t n = 0;
  uint32_t seen = 0;
  uint64_t bytes = 0;
  uint16_t last = 0;
  for (const prm::Cqe* e; seen < out.size() && (e = q.cq.peek(seen)) != nullptr; seen++) {
    last = e->wqe_counter.host();
    if (queue::Cq::is_error(e->op_own)) [[unlikely]] {
      detail::rx_error(q, *e);
      continue;
    }
    const auto index = static_cast<uint32_t>(q.rq.wr_id(last));
    const uint32_t length = e->byte_cnt.host();
    pool::Handle h = pool::make_handle(index, length & 0xffff, q.head_lines);
    if constexpr (C.side) {
      detail::write_side(q.arena.side(index), *e);
      h.meta |= pool::Handle::side;
    }
    out[n++] = h;
    bytes += length;
  }
  if (seen != 0) {
    q.rq.retire(last);
    q.cq.consume(seen);
    q.counters.packets.add(n);
    q.counters.bytes.add(bytes);
  }
  if (q.rq.room() >= q.refill_at && !q.failed) rx_refill(q);
  return n;
}

}  // namespace kilim::burst
