// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Striding RQ". Receive burst of a queue whose buffers hold several packets: handles with the
// same index and the offsets of their strides. Each packet holds the buffer, and so does the ring
// until the last stride is used up (doc/buffer-custody.md). Side records lie in an arena that has
// one for each stride at least (pool::ArenaConfig::side_piece, doc/decisions/0062).
// Owner: the queue's worker. Never allocates from a heap, blocks, logs or calls the system.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/detail/burst/rx.hh"

namespace kilim::inline v1::burst {

// Posts buffers as rx_refill(), and makes a hold of each of them for every stride: what no packet
// took goes back when the buffer is used up.
inline uint32_t rx_refill_strides(RxQueue& q) noexcept {
  const auto from = static_cast<uint16_t>(q.rq.oldest_counter() + q.rq.posted());
  const uint32_t posted = rx_refill(q);
  const auto holds = static_cast<uint16_t>(q.strides.count());
  for (uint32_t i = 0; i < posted; i++)
    q.arena.share(q.rq.index(static_cast<uint16_t>(from + i)), holds);
  return posted;
}

// Takes the holds of packets that never came from the posted buffers, before the ring is emptied:
// each of them has the ring's one then, and those of packets that were received. The device writes
// to the queue no more.
inline void rx_forget_strides(RxQueue& q) noexcept {
  uint32_t held = q.strides_held;
  for (uint32_t i = 0; i < q.rq.posted(); i++) {
    const uint32_t index = q.rq.index(static_cast<uint16_t>(q.rq.oldest_counter() + i));
    const uint32_t unused = q.strides.count() - held;
    if (unused != 0) (void)q.arena.drop(index, static_cast<uint16_t>(unused));  // never the last
    held = 0;
  }
  q.strides_used = q.strides_held = 0;
}

namespace detail {

// The oldest buffer is used up: the ring holds it no more.
inline void end_buffer(RxQueue& q) noexcept {
  const uint16_t counter = q.rq.oldest_counter();
  const uint32_t unused = q.strides.count() - q.strides_held;
  q.cache->free_holds(q.rq.retire(counter), static_cast<uint16_t>(unused + 1));
  q.strides_used = q.strides_held = 0;
}

// The device ends a buffer with an error: a frame longer than it, or a flush.
[[gnu::noinline, gnu::cold]] inline void strides_error(RxQueue& q, const prm::Cqe& e) noexcept {
  const queue::Completion c = queue::decode_error(e);
  const prm::Syndrome syndrome = c.syndrome;
  if (q.errors != nullptr) q.errors->note_receive(c, q.rq.geometry());
  end_buffer(q);
  if (syndrome == prm::Syndrome::local_length) q.counters.too_long.add(1);
  if (syndrome != prm::Syndrome::wr_flush) return q.counters.errors.add(1);
  if (!q.failed) q.counters.failures.add(1);
  q.failed.set(true);
}

}  // namespace detail

// Receives like rx_burst(). An entry without data gives strides back (Linux en_rx.c,
// mpwrq_is_filler_cqe()).
template <RxConfig C>
uint32_t rx_burst_strides(RxQueue& q, std::span<pool::Handle> out) noexcept {
  if (q.failed) [[unlikely]]
    return 0;
  constexpr auto flags = C.side ? uint16_t{pool::Handle::side} : uint16_t{0};
  uint64_t bytes = 0;
  uint32_t n = 0, seen = 0;
  for (const prm::Cqe* e; n < out.size() && (e = q.cq.peek(seen)) != nullptr; seen++) {
    if (queue::Cq::is_error(e->op_own)) [[unlikely]] {
      detail::strides_error(q, *e);
      continue;
    }
    const uint32_t word = e->byte_cnt.host();
    if ((word & prm::cqe::stride_filler) == 0) {
      // A device that counts beyond the buffer is believed no further than the buffer's end.
      const uint32_t stride = e->wqe_counter.host() & (q.strides.count() - 1);
      const auto length = static_cast<uint16_t>(word);
      const auto at = pool::meta_at(stride << q.strides.log_bytes);
      const pool::Handle h{q.rq.index(q.rq.oldest_counter()), length,
                           static_cast<uint16_t>(at | flags)};
      if constexpr (C.side) detail::write_side_of<C>(q, q.arena.side(h), h, length, *e);
      out[n++] = h;
      q.strides_held++;
      bytes += length;
    }
    q.strides_used += word >> prm::cqe::strides_shift & prm::cqe::strides_mask;
    if (q.strides_used >= q.strides.count()) detail::end_buffer(q);
  }
  if (seen != 0) q.cq.consume(seen);
  if (n != 0) {
    q.counters.packets.add(n);
    q.counters.bytes.add(bytes);
  }
  if (q.rq.room() >= q.refill_at && !q.failed) rx_refill_strides(q);
  return n;
}

}  // namespace kilim::inline v1::burst
