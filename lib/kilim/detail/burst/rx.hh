// SPDX-License-Identifier: BSD-3-Clause
// Receive burst: turns completions into handles and posts new buffers in bulk.
// Owner: the queue's worker. Never allocates from a heap, blocks, logs or calls the system. Read
// with burst/tx.hh.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/flag.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/burst/config.hh"
#include "kilim/detail/burst/joined.hh"
#include "kilim/detail/burst/packet_words.hh"
#include "kilim/detail/burst/rx_eight.hh"
#include "kilim/detail/burst/rx_four.hh"
#include "kilim/detail/burst/rx_ring.hh"
#include "kilim/detail/burst/simd.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/error_log.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::inline v1::burst {

// Counts since the queue was made. Its worker adds, any thread reads.
struct RxCounters {
  Counter packets, bytes;
  Counter errors;      // completions with an error; their buffers were freed
  Counter too_long;    // how many of the errors: frames longer than a buffer; the queue goes on
  Counter no_buffer;   // refills that found the pool empty
  Counter failures;    // times that an error ended the queue
  Counter compressed;  // packets that shared entries of the completion queue
  Counter joined;      // TCP segments that became part of the packet before them (LRO)
};

class RxChain;

// One receive queue as a burst uses it. Its maker keeps queue memory and pool alive.
struct RxQueue {
  RxRing rq;
  queue::Cq cq;
  pool::BufferCache* cache;  // of the same worker
  pool::Arena arena;
  uint16_t head_lines = 0;  // those of the ring's RxPlace
  static constexpr uint32_t usual_refill = 32;
  uint16_t refill_at = usual_refill;  // fewest free WQEs for which a doorbell is rung
  Flag failed{};                      // the device flushed the queue; the control lcore recovers it
  RxCounters counters{};
  RxChain* chain = nullptr;  // of receives into several buffers each (burst/rx_chain.hh)
  // State of rx_burst_compressed(): whether minis say the hash, and how many completions of the
  // block at the front of the completion queue have been received.
  bool mini_hash = false;
  uint32_t block_done = 0;
  // State of rx_burst_strides(): strides of the oldest buffer that are used up, packets that hold
  // it.
  RxStrides strides{};
  uint32_t strides_used = 0, strides_held = 0;
  queue::ErrorLog* errors = nullptr;  // who keeps the last error; null: nobody
};

// Posts buffers until the receive ring is full or the pool is empty, and rings once; returns
// how many.
template <Simd S = Simd::base>
[[gnu::always_inline]] inline uint32_t rx_refill(RxQueue& q) noexcept {
  const uint32_t room = q.rq.room(), posted = q.rq.refill<S>(*q.cache, room);
  if (posted != room) [[unlikely]]
    q.counters.no_buffer.add(1);
  return posted;
}

namespace detail {

// Handles an error completion: frees its buffer. A flush error means that the queue has failed.
[[gnu::noinline, gnu::cold]] inline void rx_error(RxQueue& q, const prm::Cqe& e) noexcept {
  const queue::Completion c = queue::decode_error(e);
  if (q.errors != nullptr) q.errors->note_receive(c, q.rq.geometry());
  const auto index = q.rq.index(c.wqe_counter);
  q.cache->free_indices({&index, 1});
  if (c.syndrome == prm::Syndrome::local_length) q.counters.too_long.add(1);
  if (c.syndrome != prm::Syndrome::wr_flush) return q.counters.errors.add(1);
  if (!q.failed) q.counters.failures.add(1);
  q.failed.set(true);
}

// A packet of several TCP segments, which begins at `first`, becomes one of its own, ready to be
// divided again when it is sent.
[[gnu::noinline, gnu::cold]] inline void end_joined(RxQueue& q, pool::Handle first, uint32_t length,
                                                    const prm::Cqe& e) noexcept {
  const JoinedFrame f = mend_joined(q.arena.bytes(first), length, e);
  q.counters.joined.add(prm::cqe::lro_num_seg::get(e) - 1);
  if (f.mss == 0) return;
  pool::SideRecord& side = q.arena.side(first);
  side.flags |= RTE_MBUF_F_RX_LRO;
  side.tx = {.mss = f.mss, .headers = f.headers};
}

// The side record of a packet that begins at `first`, which the bytes lie behind.
template <RxConfig C>
[[gnu::always_inline]] inline void write_side_of(RxQueue& q, pool::SideRecord& side,
                                                 pool::Handle first, uint32_t length,
                                                 const prm::Cqe& e) noexcept {
  write_side<C>(side, e);
  if constexpr (C.lro)
    if (is_joined(e)) end_joined(q, first, length, e);
}

// Takes good packets from the front, as many at once as vectors hold; returns how many.
template <RxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t take_rows([[maybe_unused]] const RxQueue& q,
                                                 [[maybe_unused]] std::span<pool::Handle> out,
                                                 [[maybe_unused]] uint32_t meta,
                                                 [[maybe_unused]] uint64_t& bytes) noexcept {
  uint32_t n = 0;
#if defined(__SSE4_1__)
  const RxRow row{q.cq.row(), q.rq.oldest(), C.side ? q.rq.sides() : nullptr, meta};
  if constexpr (S == Simd::avx2) {
    n = take_eights<C>(row, out, bytes);
    if (n + 4 <= out.size()) n += take_fours<C>(row.behind(n), out.subspan(n), bytes);
  } else {
    n = take_fours<C>(row, out, bytes);
  }
#endif
  return n;
}

// Looks for joined ones among packets that take_rows() took, whose CQEs lie in a row.
[[gnu::always_inline]] inline void end_joined_of([[maybe_unused]] RxQueue& q,
                                                 [[maybe_unused]] const queue::Cq::Row& row,
                                                 std::span<const pool::Handle> taken) noexcept {
  KILIM_ASSERT(taken.size() % 4 == 0);
#if defined(__SSE4_1__)
  const std::byte* at = row.first;
  for (std::size_t i = 0; i != taken.size(); i += 4, at += 4 * row.bytes) {
    const FourCqes four{at, row.bytes};
    if (none_joined(four)) continue;
    for (std::size_t k = 0; k < 4; k++)
      if (is_joined(four.cqe(k))) end_joined(q, taken[i + k], taken[i + k].length, four.cqe(k));
  }
#endif
}

// rx_burst() for each kind of vectors.
template <RxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t receive(RxQueue& q, std::span<pool::Handle> out) noexcept {
  if (q.failed) [[unlikely]]
    return 0;
  // `meta` is a whole register: one that is stored by halves and loaded whole waits for all stores
  // before.
  const uint32_t meta = uint32_t{pool::meta_at_line(q.head_lines)} |
                        (C.side ? uint32_t{pool::Handle::side} : uint32_t{0});
  uint64_t bytes = 0;
  uint32_t n = take_rows<C, S>(q, out, meta, bytes);
  if constexpr (C.lro) end_joined_of(q, q.cq.row(), out.first(n));
  uint32_t seen = n;
  for (const prm::Cqe* e; seen < out.size() && (e = q.cq.peek(seen)) != nullptr; seen++) {
    if (queue::Cq::is_error(e->op_own)) [[unlikely]] {
      rx_error(q, *e);
      continue;
    }
    const uint32_t index = q.rq.index(e->wqe_counter.host());
    const auto length = static_cast<uint16_t>(e->byte_cnt.host());
    const pool::Handle h{index, length, static_cast<uint16_t>(meta)};
    if constexpr (C.side) write_side_of<C>(q, q.rq.sides()[index], h, length, *e);
    out[n++] = h;
    bytes += length;
  }
  if (seen != 0) {
    q.rq.retire_oldest(seen);
    q.cq.consume(seen);
    q.counters.packets.add(n);
    q.counters.bytes.add(bytes);
  }
  if (n != seen && q.failed) [[unlikely]]
    return n;
  if (q.rq.room() >= q.refill_at) rx_refill<S>(q);
  return n;
}

}  // namespace detail

// Writes up to out.size() received packets to `out`, the oldest first, and returns how many. The
// caller holds them from now on.
template <RxConfig C>
uint32_t rx_burst(RxQueue& q, std::span<pool::Handle> out) noexcept {
  return detail::receive<C, Simd::base>(q, out);
}
#if defined(__SSE4_1__)
// rx_burst() for processors with AVX2.
template <RxConfig C>
KILIM_AVX2 uint32_t rx_burst_avx2(RxQueue& q, std::span<pool::Handle> out) noexcept {
  return detail::receive<C, Simd::avx2>(q, out);
}
#endif

}  // namespace kilim::inline v1::burst
