// SPDX-License-Identifier: BSD-3-Clause
// Receive burst of a completion queue with compression: the same handles as burst/rx.hh, of blocks
// and of CQEs that stand alone. What a mini does not say is the title's: packet type, checksum
// status, VLAN, time; a hash that no mini says is not known but for the title's own packet.
// Owner: the queue's worker. Never allocates from a heap, blocks, logs or calls the system.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kilim/detail/burst/rx.hh"
#include "kilim/detail/burst/rx_minis.hh"
#include "kilim/detail/burst/simd.hh"

namespace kilim::inline v1::burst {

namespace detail {

// Takes packets of a block, as many at once as vectors hold where there is place for as many; else
// one by one. What lies behind the last packet in its eight or four is written too, to `out` and to
// side records of buffers that are the device's, and is no packet.
template <RxConfig C, Simd S>
[[gnu::always_inline]] inline void take_minis(const RxQueue& q, const BlockPart& part,
                                              const BlockWords& words, std::span<pool::Handle> out,
                                              uint64_t& bytes) noexcept {
  uint32_t i = 0;
  for (;;) {
#if defined(__SSE4_1__)
    if constexpr (S == Simd::avx2) i = take_eight_minis<C>(part, words, i, out, bytes);
    i = take_four_minis<C, S>(part, words, i, out, bytes);
#endif
    if (i >= part.count) break;
    const auto counter = static_cast<uint16_t>(q.rq.oldest_counter() + i);
    bytes += take_mini<C>(words, q.cq.mini(part.first + i), q.rq.index(counter), out[i]);
    i++;
  }
  while (i-- > part.count) bytes -= out[i].length;
}

// Takes packets of the block whose title is `title`, at the front of the completion queue, from the
// one on that was not received yet; returns how many.
template <RxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t take_block(RxQueue& q, const prm::Cqe& title,
                                                  std::span<pool::Handle> out, uint32_t meta,
                                                  uint64_t& bytes) noexcept {
  const uint32_t count = queue::Cq::completions(title), first = q.block_done;
  KILIM_ASSERT(first < count);
  const uint32_t left = count - first;
  q.cq.prefetch_minis(count);
  const auto n = static_cast<uint32_t>(left < out.size() ? left : out.size());
  const std::span<const uint32_t> oldest = q.rq.oldest();
  const BlockPart part{q.cq, oldest.data(),
                       static_cast<uint32_t>(std::min(oldest.size(), out.size())), first, n};
  BlockWords words{{}, q.rq.sides(), meta, q.mini_hash};
  if constexpr (C.side) write_side<C>(words.side, title);
  take_minis<C, S>(q, part, words, out, bytes);
  if constexpr (C.side)
    if (!q.mini_hash && first == 0 && n != 0) write_side<C>(q.rq.sides()[out[0].index], title);
  q.rq.retire_oldest(n);
  q.block_done = first + n;
  if (q.block_done < count) return n;
  q.cq.consume_block(count);
  q.counters.compressed.add(count);
  q.block_done = 0;
  return n;
}

// Takes what stands in CQEs of its own at the front, in rows as far as that goes; returns how many
// packets. An error is none.
template <RxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t take_single(RxQueue& q, const prm::Cqe& first,
                                                   std::span<pool::Handle> out, uint32_t meta,
                                                   uint64_t& bytes) noexcept {
  uint32_t n = take_rows<C, S>(q, out, meta, bytes);
  uint32_t seen = n;
  if (seen == 0) {
    seen = 1;
    if (queue::Cq::is_error(first.op_own)) [[unlikely]] {
      rx_error(q, first);
    } else {
      const uint32_t index = q.rq.index(first.wqe_counter.host());
      const auto length = static_cast<uint16_t>(first.byte_cnt.host());
      if constexpr (C.side) write_side<C>(q.rq.sides()[index], first);
      out[n++] = {index, length, static_cast<uint16_t>(meta)};
      bytes += length;
    }
  }
  q.rq.retire_oldest(seen);
  q.cq.consume_singles(seen);
  return n;
}

// rx_burst_compressed() for each kind of vectors.
template <RxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t receive_compressed(RxQueue& q,
                                                          std::span<pool::Handle> out) noexcept {
  if (q.failed) [[unlikely]]
    return 0;
  const uint32_t meta = uint32_t{pool::meta_at_line(q.head_lines)} |
                        (C.side ? uint32_t{pool::Handle::side} : uint32_t{0});
  uint64_t bytes = 0;
  uint32_t n = 0;
  for (const prm::Cqe* e; n < out.size() && (e = q.cq.peek(0)) != nullptr;) {
    if (queue::Cq::is_compressed(e->op_own) && !queue::Cq::is_error(e->op_own))
      n += take_block<C, S>(q, *e, out.subspan(n), meta, bytes);
    else
      n += take_single<C, S>(q, *e, out.subspan(n), meta, bytes);
  }
  if (n != 0) {
    q.counters.packets.add(n);
    q.counters.bytes.add(bytes);
  }
  if (q.rq.room() >= q.refill_at && !q.failed) rx_refill<S>(q);
  return n;
}

}  // namespace detail

// Receives like rx_burst(), from a queue whose completion queue has compression.
template <RxConfig C>
uint32_t rx_burst_compressed(RxQueue& q, std::span<pool::Handle> out) noexcept {
  return detail::receive_compressed<C, Simd::base>(q, out);
}
#if defined(__SSE4_1__)
// rx_burst_compressed() for processors with AVX2.
template <RxConfig C>
KILIM_AVX2 uint32_t rx_burst_compressed_avx2(RxQueue& q, std::span<pool::Handle> out) noexcept {
  return detail::receive_compressed<C, Simd::avx2>(q, out);
}
#endif

}  // namespace kilim::inline v1::burst
