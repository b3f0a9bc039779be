// SPDX-License-Identifier: BSD-3-Clause
// Transmit: handles become SENDs of a raw packet queue, one doorbell and one completion a burst.
// What was sent is remembered in a ring of handles; a completion frees its whole burst. Owner: the
// worker of the queue; no other thread. Never allocates from a heap, blocks, logs or calls the
// system.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/burst/config.hh"
#include "kilim/burst/sent_ring.hh"
#include "kilim/burst/simd.hh"
#include "kilim/burst/tx_packet.hh"
#include "kilim/burst/tx_queue.hh"
#include "kilim/burst/tx_rows.hh"
#include "kilim/pool/pool.hh"
#include "kilim/queue/cq.hh"
#include "kilim/queue/wqe_cursor.hh"

namespace kilim::burst {

namespace detail {

// An error completion: the queue stops until it is recovered. Its packets are freed then, when the
// device has certainly finished with them.
[[gnu::noinline, gnu::cold]] inline void tx_error(TxQueue& q) noexcept {
  queue::Completion c[4];
  uint32_t n;
  while ((n = q.cq.poll(c)) != 0) {
    for (uint32_t i = 0; i < n; i++) {
      if (!c[i].ok() && c[i].syndrome != prm::Syndrome::wr_flush) q.counters.errors.add(1);
      if (q.errors != nullptr) q.errors->note_send(c[i], q.sq.geometry());
      q.sq.retire(c[i].wqe_counter);
    }
  }
  q.counters.failures.add(1);
  q.failed.set(true);
}

// Frees the handles of completed bursts; slots of keys become free.
template <TxConfig C>
[[gnu::always_inline]] inline void free_sent(TxQueue& q,
                                             std::span<const pool::Handle> done) noexcept {
  if constexpr (C.two_pools) {
    for (const pool::Handle h : done) {
      if (C.gathered && h.has(pool::Handle::key))
        q.slots->free[q.slots->free_count++] = h.index;
      else
        (q.headers->pool().has(h.index) ? q.headers : q.cache)->free_one(h);
    }
  } else if constexpr (C.gathered) {
    for (const pool::Handle h : done) {
      if (h.has(pool::Handle::key))
        q.slots->free[q.slots->free_count++] = h.index;
      else
        (h.has(pool::Handle::more) ? q.slots->headers : q.cache)->free_one(h);
    }
  } else {
    q.cache->free(done);
  }
}

// tx_reclaim() as part of a burst.
template <TxConfig C>
[[gnu::always_inline]] inline uint32_t reclaim(TxQueue& q) noexcept {
  if (q.failed) [[unlikely]]
    return 0;
  const queue::Cq::Drained d = q.cq.drain(64);
  if (d.cqes == 0) {
    if (d.error) [[unlikely]]
      tx_error(q);
    return 0;  // an error behind good completions is handled by the next call
  }
  q.sq.retire(d.wqe_counter);
  const SentRing::Done done = q.sent.pop_bursts(d.cqes);
  q.counters.completed.add(done.packets);
  free_sent<C>(q, done.first);
  if (!done.second.empty()) [[unlikely]]
    free_sent<C>(q, done.second);
  return static_cast<uint32_t>(done.first.size() + done.second.size());
}

// tx_burst() for each kind of vectors.
template <TxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t transmit(TxQueue& q,
                                                std::span<const pool::Handle> in) noexcept {
  reclaim<C>(q);
  if (q.failed) [[unlikely]]
    return 0;
  queue::WqeCursor c{q.sq};
  uint64_t bytes = 0;
  uint32_t taken = 0, packets = 0;
  if constexpr (C.offloads && !C.multi_seg) {
    taken = packets = append_mixed<C, S>(q, c, in, bytes);
  } else {
    taken = packets = append_rows<C, S>(q, c, in, bytes);
    while (taken < in.size()) {
      if constexpr (C.multi_seg) {
        taken += append_plain_chains<C>(q, c, in.subspan(taken), bytes, packets);
        if (taken == in.size()) break;
      }
      uint32_t pieces = 1;
      if constexpr (C.multi_seg || C.gathered) pieces = chain_length(in.subspan(taken));
      if (pieces == 0 || q.sent.room() < pieces) break;
      const std::span<const pool::Handle> packet = in.subspan(taken, pieces);
      if (!append_aside<C>(q, c, packet)) break;
      for (const pool::Handle h : packet) q.sent.push(h);
      bytes += bytes_of<C>(packet);
      taken += pieces;
      packets++;
    }
  }
  if (packets == 0) return 0;
  c.signal_last();
  c.commit();
  q.sent.end_burst(packets);
  q.counters.packets.add(packets);
  q.counters.bytes.add(bytes);
  return taken;
}

}  // namespace detail

// Handles completions and frees their packets; returns the number of handles freed.
template <TxConfig C>
uint32_t tx_reclaim(TxQueue& q) noexcept {
  return detail::reclaim<C>(q);
}

// Sends packets from the front of `in` with one doorbell; returns how many handles it took, of
// whole packets only. The caller keeps the others. It stops at a packet that no device sends (an
// empty one) or the queue does not (a word that it was not set up for): the caller drops that
// before it tries again.
template <TxConfig C>
uint32_t tx_burst(TxQueue& q, std::span<const pool::Handle> in) noexcept {
  return detail::transmit<C, Simd::base>(q, in);
}
#if defined(__SSE4_1__)
// The same for processors with AVX2.
template <TxConfig C>
KILIM_AVX2 uint32_t tx_burst_avx2(TxQueue& q, std::span<const pool::Handle> in) noexcept {
  return detail::transmit<C, Simd::avx2>(q, in);
}
#endif

// How many packets of one piece the next burst is sure to take, if their WQEs inline no more than
// 18 bytes.
inline uint32_t tx_room(const TxQueue& q) noexcept {
  if (q.failed) return 0;
  const uint32_t blocks = q.sq.credits().value();
  return blocks < q.sent.room() ? blocks : q.sent.room();
}

}  // namespace kilim::burst
