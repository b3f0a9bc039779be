// SPDX-License-Identifier: BSD-3-Clause
// Receives into several buffers each: jumbo frames over buffers of one pool, or headers into
// buffers of one pool and payloads into those of another. RxRing keeps the first segment of each
// WQE, RxChain the others. A packet is a chain of handles (Handle::more), as a transmit burst with
// TxConfig::multi_seg takes it. Owner: the queue's worker. Never allocates from a heap, blocks,
// logs or calls the system.
#pragma once

#include <cstdint>
#include <span>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/burst/rx.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/queue/geometry.hh"
#include "kilim/detail/queue/sge.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::inline v1::burst {

inline constexpr uint32_t max_rx_segments = 8;  // of a WQE: what a transmit burst takes as a packet

// The buffers for a packet's bytes behind the first segment.
struct RxChainPlace {
  pool::Arena arena;
  Lkey key;                   // of the arena, for this device
  uint32_t segments = 2;      // of a WQE, the ring's own included: 2 to max_rx_segments
  uint32_t first_length = 0;  // bytes of the ring's own
};

// The device fills the segments of a WQE in order, so that a packet takes the first of them; the
// buffers behind it stay in their WQE for the next packet there. So do all of a WQE that ended with
// an error.
class RxChain {
 public:
  // `indices` has (segments - 1) entries for each WQE and `missing` one; both outlive the chain.
  // `cache` is the worker's, of the buffers behind the first.
  RxChain(const queue::RqGeometry& geometry, std::span<uint32_t> indices,
          std::span<uint8_t> missing, const RxChainPlace& place, pool::BufferCache& cache) noexcept
      : geometry_(geometry),
        indices_(indices.data()),
        missing_(missing.data()),
        mask_(geometry.wqe_count - 1),
        tail_(place.segments - 1),
        first_length_(place.first_length),
        arena_(place.arena),
        cache_(&cache) {
    KILIM_ASSERT(place.segments >= 2 && place.segments <= max_rx_segments &&
                 place.first_length != 0 && geometry.stride >= place.segments * octoword_bytes);
    KILIM_ASSERT(indices.size() >= std::size_t{geometry.wqe_count} * tail_ &&
                 missing.size() >= geometry.wqe_count);
    for (uint32_t i = 0; i < geometry.wqe_count; i++) {
      for (uint32_t k = 0; k < tail_; k++)
        queue::store_pointer(segment(i, k), 0, arena_.room(), place.key);
      if (geometry.stride > place.segments * octoword_bytes)
        queue::store_pointer(segment(i, tail_), 0, 0, Lkey{prm::list_end_lkey});
      missing_[i] = static_cast<uint8_t>(tail_);
    }
    due_ = geometry.wqe_count * tail_;
  }

  [[nodiscard]] uint32_t segments() const noexcept { return tail_ + 1; }
  [[nodiscard]] pool::BufferCache& cache() const noexcept { return *cache_; }
  // For the control lcore, which serves the queue by a cache of its own meanwhile.
  void set_cache(pool::BufferCache& cache) noexcept { cache_ = &cache; }
  // Buffers that lie in WQEs, posted or not.
  [[nodiscard]] uint32_t held() const noexcept { return (mask_ + 1) * tail_ - due_; }

  // Writes the handles of a packet of `length` bytes in the WQE at `counter`, whose first buffer is
  // `index`, to `out`, which has a place at least; the caller holds the buffers from now on.
  // Returns how many; 0: they do not fit, and nothing has changed.
  uint32_t take(uint16_t counter, pool::Handle first, uint32_t length,
                std::span<pool::Handle> out) noexcept {
    const uint32_t head = length < first_length_ ? length : first_length_;
    out[0] = {first.index, static_cast<uint16_t>(head), first.meta};
    if (length == head) return 1;
    const uint32_t rest = length - head, piece = arena_.room();
    const uint32_t more = rest <= piece ? 1 : (rest - 1) / piece + 1;
    KILIM_ASSERT(more <= tail_);  // a longer frame ends with a length error
    if (more >= out.size()) return 0;
    out[0].meta |= pool::Handle::more;
    const uint32_t slot = counter & mask_;
    const uint32_t* const from = indices_ + std::size_t{slot} * tail_;
    for (uint32_t i = 0; i + 1 < more; i++)
      out[1 + i] = {from[i], static_cast<uint16_t>(piece), pool::Handle::more};
    out[more] = {from[more - 1], static_cast<uint16_t>(rest - (more - 1) * piece), 0};
    missing_[slot] = static_cast<uint8_t>(more);
    due_ += more;
    return more + 1;
  }

  // Gives `count` WQEs from number `from` on, none of them posted, the buffers that they miss.
  // Returns how many are whole: fewer than asked for if the pool is empty.
  uint32_t fill(uint32_t from, uint32_t count) noexcept {
    uint32_t stock[chunk * (max_rx_segments - 1)];
    KILIM_ASSERT(count <= chunk);
    uint32_t need = 0;
    for (uint32_t i = 0; i < count; i++) need += missing_[(from + i) & mask_];
    uint32_t have = cache_->alloc_indices({stock, need});
    due_ -= have;
    for (uint32_t i = 0; i < count; i++)
      if (!place((from + i) & mask_, stock, have)) return i;
    return count;
  }
  static constexpr uint32_t chunk = 16;  // WQEs that are filled at once

  // Takes the buffers out of `count` WQEs from number `from` on, none of them posted, and frees
  // them: where there are too few, they shall not lie in WQEs that miss others.
  void drain(uint32_t from, uint32_t count) noexcept {
    for (uint32_t i = 0; i < count; i++)
      empty((from + i) & mask_, [this](uint32_t index) noexcept {
        cache_->free_indices({&index, 1});
      });
  }

  // Called when the queue went through RESET: calls visit(buffer) for what lies in the WQEs.
  template <typename Visit>
  void reset(Visit&& visit) noexcept {
    for (uint32_t slot = 0; slot <= mask_; slot++) empty(slot, visit);
  }

 private:
  [[nodiscard]] std::byte* segment(uint32_t slot, uint32_t k) const noexcept {
    return geometry_.buf + std::size_t{slot} * geometry_.stride +
           std::size_t{k + 1} * octoword_bytes;
  }
  // Fills a WQE from the end of the stock. False: the stock is empty before the WQE is whole.
  bool place(uint32_t slot, const uint32_t* stock, uint32_t& have) noexcept {
    uint32_t* const to = indices_ + std::size_t{slot} * tail_;
    uint32_t m = missing_[slot];
    for (; m != 0 && have != 0; m--) {
      const uint32_t index = stock[--have];
      to[m - 1] = index;
      queue::store_word(segment(slot, m - 1) + offsetof(prm::DataSeg, addr),
                        be64{arena_.address({index, 0, 0}).value()});
    }
    missing_[slot] = static_cast<uint8_t>(m);
    return m == 0;
  }
  template <typename Visit>
  void empty(uint32_t slot, Visit&& visit) noexcept {
    const uint32_t* const from = indices_ + std::size_t{slot} * tail_;
    for (uint32_t k = missing_[slot]; k < tail_; k++) visit(from[k]);
    due_ += tail_ - missing_[slot];
    missing_[slot] = static_cast<uint8_t>(tail_);
  }

  queue::RqGeometry geometry_;
  uint32_t* indices_;
  uint8_t* missing_;  // of each WQE, the first so many: buffers that packets took away
  uint32_t mask_;
  uint32_t tail_;  // segments of a WQE behind the first
  uint32_t first_length_;
  uint32_t due_ = 0;  // sum of what is missing
  pool::Arena arena_;
  pool::BufferCache* cache_;
};

// Posts receives until the ring is full or a pool is empty; returns how many. The first buffers
// come from the queue's cache, the others from the chain's.
inline uint32_t rx_refill_chain(RxQueue& q) noexcept {
  RxChain& chain = *q.chain;
  uint32_t posted = 0;
  for (uint32_t step = RxChain::chunk; q.rq.room() != 0;) {
    const uint32_t room = q.rq.room(), count = room < step ? room : step;
    const uint32_t whole = chain.fill(q.rq.next(), count);
    const uint32_t n = q.rq.refill(*q.cache, whole);
    posted += n;
    if (n == count) continue;
    // With too few buffers one WQE after the other is made whole, so that what there is, is used.
    if (step == 1) {
      q.counters.no_buffer.add(1);
      break;
    }
    chain.drain(q.rq.next() + 1, count - n - 1);
    step = 1;
  }
  return posted;
}

namespace detail {

// What a burst with a chain has done so far.
struct ChainsTaken {
  uint32_t handles = 0;
  uint32_t seen = 0;  // CQEs
  uint32_t packets = 0;
  uint64_t bytes = 0;
};

#if defined(__SSE4_1__)
// Takes packets as long as there are four in a row, all are good, and `out` has room for four of
// the longest.
template <RxConfig C>
[[gnu::always_inline]] inline ChainsTaken take_chained_fours(RxQueue& q,
                                                             std::span<pool::Handle> out,
                                                             uint16_t meta) noexcept {
  RxChain& chain = *q.chain;
  const RxRow row{q.cq.row(), q.rq.oldest(), C.side ? q.rq.sides() : nullptr, 0};
  const auto whole = static_cast<uint32_t>(row.most(out.size()) & ~std::size_t{3});
  const __m128i op_own = packet_op_own(row.cqes.owner);
  const uint32_t* const types = in_one_register(type_table<C>());
  const uint16_t counter = q.rq.oldest_counter();
  ChainsTaken t;
  for (; t.seen != whole && out.size() - t.handles >= std::size_t{4} * chain.segments();
       t.seen += 4) {
    const FourCqes four{row.cqes.first + t.seen * row.cqes.bytes, row.cqes.bytes};
    if (!are_packets(four, op_own)) break;
    after_owner_bit();
    const uint32_t* const indices = &row.buffers[t.seen];
    if constexpr (C.side) write_sides<C>(row.sides, indices, four, types);
    for (uint32_t i = 0; i < 4; i++) {
      const uint32_t length = four.cqe(i).byte_cnt.host();
      const std::span<pool::Handle> to = out.subspan(t.handles);
      t.handles += chain.take(static_cast<uint16_t>(counter + t.seen + i), {indices[i], 0, meta},
                              length, to);
      if constexpr (C.lro)
        if (is_joined(four.cqe(i))) end_joined(q, to[0], length, four.cqe(i));
      t.bytes += length;
    }
  }
  t.packets = t.seen;
  return t;
}
#endif

}  // namespace detail

// rx_burst() of a queue with a chain. Writes whole packets only, each as a chain of handles, up to
// out.size() handles, and returns how many handles. `out` has room for the longest packet.
template <RxConfig C>
uint32_t rx_burst_chain(RxQueue& q, std::span<pool::Handle> out) noexcept {
  if (q.failed) [[unlikely]]
    return 0;
  RxChain& chain = *q.chain;
  KILIM_ASSERT(out.size() >= chain.segments());
  const auto meta =
      static_cast<uint16_t>(pool::meta_at_line(q.head_lines) | (C.side ? pool::Handle::side : 0));
  detail::ChainsTaken t;
#if defined(__SSE4_1__)
  t = detail::take_chained_fours<C>(q, out, meta);
#endif
  for (const prm::Cqe* e; t.handles < out.size() && (e = q.cq.peek(t.seen)) != nullptr; t.seen++) {
    if (queue::Cq::is_error(e->op_own)) [[unlikely]] {
      detail::rx_error(q, *e);
      continue;
    }
    const uint16_t counter = e->wqe_counter.host();
    const uint32_t index = q.rq.index(counter), length = e->byte_cnt.host();
    const std::span<pool::Handle> to = out.subspan(t.handles);
    const uint32_t pieces = chain.take(counter, {index, 0, meta}, length, to);
    if (pieces == 0) break;
    if constexpr (C.side) detail::write_side_of<C>(q, q.rq.sides()[index], to[0], length, *e);
    t.handles += pieces;
    t.bytes += length;
    t.packets++;
  }
  if (t.seen != 0) {
    q.rq.retire_oldest(t.seen);
    q.cq.consume(t.seen);
    q.counters.packets.add(t.packets);
    q.counters.bytes.add(t.bytes);
  }
  if (q.rq.room() >= q.refill_at && !q.failed) rx_refill_chain(q);
  return t.handles;
}

}  // namespace kilim::inline v1::burst
