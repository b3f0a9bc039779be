// SPDX-License-Identifier: BSD-3-Clause
// Transmit: handles become SENDs of a raw packet queue, one doorbell and one completion a burst.
// What was sent is remembered in a ring of handles; a completion frees its whole burst. Owner: the
// worker of the queue; no other thread. Never allocates from a heap, blocks, logs or calls the
// system.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "kilim/burst/config.hh"
#include "kilim/burst/sent_ring.hh"
#include "kilim/burst/simd.hh"
#include "kilim/burst/tx_asking.hh"
#include "kilim/burst/tx_chain.hh"
#include "kilim/burst/tx_four.hh"
#include "kilim/burst/tx_packet.hh"
#include "kilim/burst/tx_queue.hh"
#include "kilim/burst/tx_row.hh"
#include "kilim/pool/pool.hh"
#include "kilim/queue/cq.hh"
#include "kilim/queue/eth_row.hh"
#include "kilim/queue/mpw_row.hh"
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
void free_sent(TxQueue& q, std::span<const pool::Handle> done) noexcept {
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

#if defined(__SSE4_1__)
// Appends one row from the front of `in`, as long as there is room; returns the packets, 0: none,
// or one of them is empty.
template <typename Row, Simd S>
[[gnu::always_inline]] inline uint32_t append_one_row(TxQueue& q, queue::WqeCursor& c,
                                                      std::span<const pool::Handle> in,
                                                      uint8_t offload, uint64_t& bytes) noexcept {
  const std::span<pool::Handle> sent = q.sent.row();
  const std::size_t most = Row::most(c);
  std::size_t n = sent.size() < most ? sent.size() : most;
  n = in.size() < n ? in.size() : n;
  if (n < Row::least) return 0;
  const RowShape shape{&q.arena, q.key, offload, unsignalled.flags};
  uint64_t more;
  if constexpr (S == Simd::avx2)
    more = append_row_avx2<Row>(c, shape, in.first(n), sent.data());
  else
    more = append_row<Row>(c, shape, in.first(n), sent.data());
  if (more == 0) return 0;
  bytes += more;
  q.sent.pushed(static_cast<uint32_t>(n));
  return static_cast<uint32_t>(n);
}

// The rows of a configuration.
template <TxConfig C, Simd S>
struct RowOf {
  using Single = std::conditional_t<S == Simd::avx2, queue::WideEthRow, queue::EthRow>;
  using Type = std::conditional_t<C.multi_packet, queue::MpwRow, Single>;
};

// One row of packets that ask, as append_one_row().
[[gnu::always_inline]] inline uint32_t append_one_asking_row(TxQueue& q, queue::WqeCursor& c,
                                                             const Words& words,
                                                             std::span<const pool::Handle> in,
                                                             uint64_t& bytes) noexcept {
  const std::span<pool::Handle> sent = q.sent.row();
  const std::size_t most = queue::EthRow::most(c);
  std::size_t n = sent.size() < most ? sent.size() : most;
  n = in.size() < n ? in.size() : n;
  if (n == 0) return 0;
  const RowShape shape{&q.arena, q.key, q.offload, unsignalled.flags};
  const uint64_t more = append_asking_row(c, shape, words, in.first(n), sent.data());
  if (more == 0) return 0;
  bytes += more;
  q.sent.pushed(static_cast<uint32_t>(n));
  return static_cast<uint32_t>(n);
}

// Appends packets of one buffer each that ask for something, from the front of `in`, and returns
// how many: up to one that needs a WQE of another form.
template <TxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t append_asking(TxQueue& q, queue::WqeCursor& c,
                                                     std::span<const pool::Handle> in,
                                                     uint64_t& bytes) noexcept {
  // Rows find records by a buffer's index alone.
  if (c.has_pending_fence() || q.arena.side_piece() != 0) return 0;
  const Words words(q);
  uint32_t taken = 0;
  for (uint32_t n; taken < in.size(); taken += n) {
    std::span<const pool::Handle> rest = in.subspan(taken);
    if constexpr (C.multi_packet) {
      if (const uint32_t many = sharing(words, rest); many >= queue::MpwRow::least) {
        const uint8_t checksums = words.checksums(words.of(rest[0]));
        n = append_one_row<queue::MpwRow, S>(q, c, rest.first(many), checksums, bytes);
        if (n != 0) continue;
        rest = rest.first(many);  // no room for two, or one of them is empty
      } else {
        rest = rest.first(alone(words, rest));
      }
    }
    n = append_one_asking_row(q, c, words, rest, bytes);
    if (n == 0) break;
  }
  return taken;
}
#endif

// Appends packets of one buffer each from the front of `in`, in rows, and returns how many: all
// that there is room for, up to the first empty one at most.
template <TxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t append_rows(
    [[maybe_unused]] TxQueue& q, [[maybe_unused]] queue::WqeCursor& c,
    [[maybe_unused]] std::span<const pool::Handle> in, [[maybe_unused]] uint64_t& bytes) noexcept {
  uint32_t taken = 0;
#if defined(__SSE4_1__)
  if (C.multi_seg || C.gathered || c.has_pending_fence()) return 0;
  for (uint32_t n; taken < in.size(); taken += n) {
    n = append_one_row<typename RowOf<C, S>::Type, S>(q, c, in.subspan(taken), q.offload, bytes);
    if (n == 0) break;
  }
#endif
  return taken;
}

// Appends packets of several pieces from the front of `in`, as far as they are plain; returns the
// handles that it took.
template <TxConfig C>
[[gnu::always_inline]] inline uint32_t append_plain_chains(
    [[maybe_unused]] TxQueue& q, [[maybe_unused]] queue::WqeCursor& c,
    [[maybe_unused]] std::span<const pool::Handle> in, [[maybe_unused]] uint64_t& bytes,
    [[maybe_unused]] uint32_t& packets) noexcept {
#if defined(__SSE4_1__)
  return c.has_pending_fence() ? 0 : append_chains<C>(q, c, in, bytes, packets);
#else
  return 0;
#endif
}

// How many packets at the front of `in` are of one kind, and those of them that rows took.
struct Kind {
  uint32_t packets, taken;
};
template <TxConfig C, Simd S>
[[gnu::always_inline]] inline Kind append_kind([[maybe_unused]] TxQueue& q,
                                               [[maybe_unused]] queue::WqeCursor& c,
                                               [[maybe_unused]] std::span<const pool::Handle> in,
                                               [[maybe_unused]] uint64_t& bytes) noexcept {
#if defined(__SSE4_1__)
  if (q.offer.min_inline != 0) return {1, 0};
  if (!q.offer.words) {
    const auto all = static_cast<uint32_t>(in.size());
    return {all, append_rows<C, S>(q, c, in, bytes)};
  }
  uint32_t n;
  if constexpr (S == Simd::avx2)
    n = alike_avx2(in);
  else
    n = alike(in);
  if (!in[0].has(pool::Handle::offload)) return {n, append_rows<C, S>(q, c, in.first(n), bytes)};
  return {n, append_asking<C, S>(q, c, in.first(n), bytes)};
#else
  return {1, 0};
#endif
}

// Appends packets of one buffer each: in rows those in a row that ask for nothing, and those that
// ask. One that needs a WQE of another form, and all that no row took, go one by one. Returns how
// many.
template <TxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t append_mixed(TxQueue& q, queue::WqeCursor& c,
                                                    std::span<const pool::Handle> in,
                                                    uint64_t& bytes) noexcept {
  uint32_t taken = 0;
  while (taken < in.size()) {
    const Kind kind = append_kind<C, S>(q, c, in.subspan(taken), bytes);
    const uint32_t end = taken + kind.packets;
    for (taken += kind.taken; taken < end; taken++) {
      const pool::Handle h = in[taken];
      if (q.sent.room() == 0 || !append_aside<C>(q, c, in.subspan(taken, 1))) return taken;
      q.sent.push(h);
      bytes += h.length;
    }
  }
  return taken;
}

// tx_burst() for each kind of vectors.
template <TxConfig C, Simd S>
[[gnu::always_inline]] inline uint32_t transmit(TxQueue& q,
                                                std::span<const pool::Handle> in) noexcept;

}  // namespace detail

// Handles completions and frees their packets; returns the number of handles freed.
template <TxConfig C>
uint32_t tx_reclaim(TxQueue& q) noexcept {
  if (q.failed) [[unlikely]]
    return 0;
  const queue::Cq::Drained d = q.cq.drain(64);
  if (d.cqes == 0) {
    if (d.error) [[unlikely]]
      detail::tx_error(q);
    return 0;  // an error behind good completions is handled by the next call
  }
  q.sq.retire(d.wqe_counter);
  const SentRing::Done done = q.sent.pop_bursts(d.cqes);
  q.counters.completed.add(done.packets);
  detail::free_sent<C>(q, done.first);
  if (!done.second.empty()) [[unlikely]]
    detail::free_sent<C>(q, done.second);
  return static_cast<uint32_t>(done.first.size() + done.second.size());
}

template <TxConfig C, Simd S>
uint32_t detail::transmit(TxQueue& q, std::span<const pool::Handle> in) noexcept {
  tx_reclaim<C>(q);
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
