// SPDX-License-Identifier: BSD-3-Clause
// Transmit: handles become SENDs of a raw packet queue, one doorbell and one completion a burst.
// What was sent is remembered in a ring of handles; a completion frees its whole burst. Owner: the
// worker of the queue; no other thread. Never allocates from a heap, blocks, logs or calls the
// system.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/detail/burst/config.hh"
#include "kilim/detail/burst/sent_ring.hh"
#include "kilim/detail/burst/simd.hh"
#include "kilim/detail/burst/tx_packet.hh"
#include "kilim/detail/burst/tx_queue.hh"
#include "kilim/detail/burst/tx_rows.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/wqe_cursor.hh"

namespace kilim::inline v1::burst {

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
        q.slots->push_free(h.index);
      else
        (q.headers->pool().has(h.index) ? q.headers : q.cache)->free_one(h);
    }
  } else if constexpr (C.gathered) {
    for (const pool::Handle h : done) {
      if (h.has(pool::Handle::key))
        q.slots->push_free(h.index);
      else
        (h.has(pool::Handle::more) ? q.slots->headers : q.cache)->free_one(h);
    }
  } else {
    q.cache->free(done);
  }
}

// What a look at the completions did.
struct Reclaimed {
  uint32_t handles = 0;  // freed
  bool failed = false;   // an error ended the queue
};
template <TxConfig C>
[[gnu::always_inline]] inline Reclaimed reclaim(TxQueue& q) noexcept {
  const queue::Cq::Drained d = q.cq.drain(64);
  if (d.cqes == 0) {
    if (!d.error) return {};
    tx_error(q);
    return {.failed = true};  // behind good completions it is handled by the next call
  }
  const SentRing::Done done = q.sent.pop_bursts(d.cqes);
  q.sq.retire_to(done.posted);
  q.counters.completed.add(done.packets);
  free_sent<C>(q, done.first);
  if (!done.second.empty()) [[unlikely]]
    free_sent<C>(q, done.second);
  return {.handles = static_cast<uint32_t>(done.first.size() + done.second.size())};
}

// What was appended of a burst.
struct Appended {
  uint32_t handles = 0, packets = 0;
  uint64_t bytes = 0;
};

// Appends packets of any form from the front of `in`, each by itself or in rows of chains.
template <TxConfig C>
[[gnu::always_inline]] inline Appended append_each(TxQueue& q, queue::WqeCursor& c,
                                                   std::span<const pool::Handle> in) noexcept {
  uint64_t bytes = 0;
  uint32_t taken = 0, packets = 0;
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
  return {taken, packets, bytes};
}
// Appends what no row took, by a cursor of its own, so that the burst's has no address.
template <TxConfig C>
[[gnu::noinline, gnu::cold]] Appended append_rest(TxQueue& q, queue::WqeCursor& c,
                                                  std::span<const pool::Handle> in) noexcept {
  return append_each<C>(q, c, in);
}

template <TxConfig C, Simd S>
[[gnu::always_inline]] inline Appended append_burst(TxQueue& q, queue::WqeCursor& c,
                                                    std::span<const pool::Handle> in) noexcept {
  if constexpr (C.multi_seg || C.gathered) return append_each<C>(q, c, in);
  Appended a;
  if constexpr (C.offloads)
    a.handles = append_mixed<C, S>(q, c, in, a.bytes);
  else
    a.handles = append_rows<C, S>(q, c, in, a.bytes);
  a.packets = a.handles;
  if constexpr (!C.offloads) {
    if (a.handles == in.size()) [[likely]]
      return a;
    queue::WqeCursor aside = c.aside();
    const Appended rest = append_rest<C>(q, aside, in.subspan(a.handles));
    c.resume(aside);
    a.handles += rest.handles;
    a.packets += rest.packets;
    a.bytes += rest.bytes;
  }
  return a;
}

// tx_burst() for each kind of vectors.
template <TxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t transmit(TxQueue& q,
                                                std::span<const pool::Handle> in) noexcept {
  if (q.failed || reclaim<C>(q).failed) [[unlikely]]
    return 0;
  queue::WqeCursor c{q.sq};
  const Appended a = append_burst<C, S>(q, c, in);
  if (a.packets == 0) return 0;
  c.signal_last();
  c.commit();
  q.sent.end_burst(a.packets, c.position());
  q.counters.packets.add(a.packets);
  q.counters.bytes.add(a.bytes);
  return a.handles;
}

}  // namespace detail

// Handles completions and frees their packets; returns the number of handles freed.
template <TxConfig C>
uint32_t tx_reclaim(TxQueue& q) noexcept {
  return q.failed ? 0 : detail::reclaim<C>(q).handles;
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
// tx_burst() for processors with AVX2. Rows are inlined here: they cannot say so themselves in
// functions that are for any processor.
template <TxConfig C>
KILIM_AVX2 [[gnu::flatten]] uint32_t tx_burst_avx2(TxQueue& q,
                                                   std::span<const pool::Handle> in) noexcept {
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

}  // namespace kilim::inline v1::burst
