// SPDX-License-Identifier: BSD-3-Clause
// Receive burst of a completion queue with compression: the same handles as burst/rx.hh, of blocks
// and of CQEs that stand alone. What a mini does not say is the title's: packet type, checksum
// status, VLAN, time; a hash that no mini says is not known but for the title's own packet.
// Owner: the queue's worker. Never allocates from a heap, blocks, logs or calls the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/burst/rx.hh"

namespace kilim::inline v1::burst {

namespace detail {

// Takes packets of the block whose title is `title`, at the front of the completion queue, from the
// one on that was not received yet; returns how many.
template <RxConfig C>
[[gnu::always_inline]] inline uint32_t take_block(RxQueue& q, const prm::Cqe& title,
                                                  std::span<pool::Handle> out, uint16_t meta,
                                                  uint64_t& bytes) noexcept {
  const uint32_t count = queue::Cq::completions(title), first = q.block_done;
  KILIM_ASSERT(first < count);
  const uint32_t left = count - first;
  const auto n = static_cast<uint32_t>(left < out.size() ? left : out.size());
  const auto counter = static_cast<uint16_t>(title.wqe_counter.host() + first);
  constexpr std::size_t written =
      offsetof(pool::SideRecord, timestamp) + (C.timestamp ? sizeof(uint64_t) : 0);
  pool::SideRecord side;
  if constexpr (C.side) write_side<C>(side, title);
  for (uint32_t i = 0; i < n; i++) {
    const prm::MiniCqe& mini = q.cq.mini(first + i);
    const uint32_t index = q.rq.index(static_cast<uint16_t>(counter + i));
    const auto length = static_cast<uint16_t>(mini.byte_cnt.host());
    if constexpr (C.side) {
      if (q.mini_hash || first + i != 0) {
        side.rx_hash = q.mini_hash ? mini.result.host() : 0;
        side.flags = (side.flags & ~hash_flag) | (side.rx_hash != 0 ? hash_flag : 0u);
      }
      std::memcpy(static_cast<void*>(&q.rq.sides()[index]), &side, written);
    }
    out[i] = {index, length, meta};
    bytes += length;
  }
  q.rq.retire(static_cast<uint16_t>(counter + n - 1));
  q.block_done = first + n;
  if (q.block_done < count) return n;
  q.cq.consume_block(count);
  q.counters.compressed.add(count);
  q.block_done = 0;
  return n;
}

// Takes what stands in CQEs of its own at the front, in rows as far as that goes; returns how many
// packets. An error is none.
template <RxConfig C>
[[gnu::always_inline]] inline uint32_t take_single(RxQueue& q, const prm::Cqe& first,
                                                   std::span<pool::Handle> out, uint16_t meta,
                                                   uint64_t& bytes) noexcept {
  uint32_t n = take_rows<C, Simd::base>(q, out, meta, bytes);
  uint32_t seen = n;
  if (seen == 0) {
    seen = 1;
    if (queue::Cq::is_error(first.op_own)) [[unlikely]] {
      rx_error(q, first);
    } else {
      const uint32_t index = q.rq.index(first.wqe_counter.host());
      const auto length = static_cast<uint16_t>(first.byte_cnt.host());
      if constexpr (C.side) write_side<C>(q.rq.sides()[index], first);
      out[n++] = {index, length, meta};
      bytes += length;
    }
  }
  q.rq.retire(q.cq.peek(seen - 1)->wqe_counter.host());
  q.cq.consume(seen);
  return n;
}

}  // namespace detail

// Receives like rx_burst(), from a queue whose completion queue has compression.
template <RxConfig C>
uint32_t rx_burst_compressed(RxQueue& q, std::span<pool::Handle> out) noexcept {
  if (q.failed) [[unlikely]]
    return 0;
  const auto meta = static_cast<uint16_t>(pool::meta_at_line(q.head_lines) |
                                          (C.side ? uint16_t{pool::Handle::side} : uint16_t{0}));
  uint64_t bytes = 0;
  uint32_t n = 0;
  for (const prm::Cqe* e; n < out.size() && (e = q.cq.peek(0)) != nullptr;) {
    if (queue::Cq::is_compressed(e->op_own) && !queue::Cq::is_error(e->op_own))
      n += detail::take_block<C>(q, *e, out.subspan(n), meta, bytes);
    else
      n += detail::take_single<C>(q, *e, out.subspan(n), meta, bytes);
  }
  if (n != 0) {
    q.counters.packets.add(n);
    q.counters.bytes.add(bytes);
  }
  if (q.rq.room() >= q.refill_at && !q.failed) rx_refill(q);
  return n;
}

}  // namespace kilim::inline v1::burst
