// SPDX-License-Identifier: BSD-3-Clause
// Transmit: handles become SENDs of a raw packet queue, one doorbell and one completion a burst.
// What was sent is remembered in a ring of handles; a completion frees its whole burst. Owner: the
// worker of the queue; no other thread. Never allocates from a heap, blocks, logs or calls the
// system.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "kilim/base/assert.hh"
#include "kilim/base/counter.hh"
#include "kilim/base/flag.hh"
#include "kilim/base/ident.hh"
#include "kilim/burst/config.hh"
#include "kilim/burst/sent_ring.hh"
#include "kilim/burst/simd.hh"
#include "kilim/burst/tx_four.hh"
#include "kilim/burst/tx_row.hh"
#include "kilim/pool/pool.hh"
#include "kilim/queue/cq.hh"
#include "kilim/queue/eth_row.hh"
#include "kilim/queue/eth_wqe.hh"
#include "kilim/queue/mpw_row.hh"
#include "kilim/queue/sq.hh"
#include "kilim/queue/wqe_cursor.hh"

namespace kilim::burst {

// Counts since the queue was made. Its worker adds, any thread reads.
struct TxCounters {
  Counter packets, bytes;
  Counter completed;  // packets whose completion was seen
  Counter errors;     // completions with an error
  Counter failures;   // times that the queue was ended by one
};

// Keys of gathered packets by slot, and the free slots. Written by the PacketGather of the same
// worker.
struct MkeySlots {
  const Lkey* keys = nullptr;
  uint32_t* free = nullptr;  // a stack of slots
  uint32_t free_count = 0;
  pool::BufferCache* headers = nullptr;  // gets pieces with Handle::more back: header buffers
};

// One send queue as a burst uses it. Its maker keeps queue memory and pool alive.
struct TxQueue {
  queue::Sq sq;
  queue::Cq cq;  // at least as many entries as the send queue has blocks
  SentRing sent;
  pool::BufferCache* cache;  // of the same worker
  pool::Arena arena;
  Lkey key;                                   // of the arena, for this device
  uint8_t offload = queue::EthOffload::none;  // checksums that the device fills in
  Flag failed{};                              // set by an error; the control lcore clears it
  MkeySlots* slots = nullptr;                 // of gathered packets
  pool::BufferCache* headers = nullptr;       // with TxConfig::two_pools; of the same worker
  TxCounters counters{};
};

inline constexpr uint32_t max_pieces = 8;  // of one packet, a key's slot not counted

namespace detail {

// Every WQE of a burst but the last. If the queue fails, only its first error makes a CQE; the
// flushed WQEs make none.
inline constexpr queue::Wr unsignalled{.flags = queue::WrFlags::only_first_error};

// An error completion: the queue stops until it is recovered. Its packets are freed then, when the
// device has certainly finished with them.
[[gnu::noinline, gnu::cold]] inline void tx_error(TxQueue& q) noexcept {
  queue::Completion c[4];
  uint32_t n;
  while ((n = q.cq.poll(c)) != 0) {
    for (uint32_t i = 0; i < n; i++) {
      if (!c[i].ok() && c[i].syndrome != prm::Syndrome::wr_flush) q.counters.errors.add(1);
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

// Number of handles of the packet that starts at in[0]; 0: it does not end within `in`.
inline uint32_t chain_length(std::span<const pool::Handle> in) noexcept {
  for (uint32_t i = 0; i < in.size(); i++)
    if (!in[i].has(pool::Handle::more)) return i + 1;
  return 0;
}

// Appends the WQE of a packet in several pieces; false: the queue is full or the packet is empty.
inline bool append_chain(TxQueue& q, queue::WqeCursor& c,
                         std::span<const pool::Handle> chain) noexcept {
  KILIM_ASSERT(chain.size() <= max_pieces);
  queue::Sge pieces[max_pieces];
  for (uint32_t i = 0; i < chain.size(); i++)
    pieces[i] = {q.arena.address(chain[i]).value(), chain[i].length, q.key};
  return queue::eth_send(c, {pieces, chain.size()}, q.offload, unsignalled);
}

// Bytes of the packet on the wire. A key's handle has the length of the pieces behind it.
template <TxConfig C>
uint64_t bytes_of(std::span<const pool::Handle> packet) noexcept {
  uint64_t sum = packet[0].length;
  if constexpr (C.multi_seg) {
    if (!packet[0].has(pool::Handle::key))
      for (const pool::Handle h : packet.subspan(1)) sum += h.length;
  }
  return sum;
}

// Appends the WQE of one packet; false: the queue is full or the packet is empty.
template <TxConfig C>
bool append(TxQueue& q, queue::WqeCursor& c, std::span<const pool::Handle> packet) noexcept {
  const pool::Handle head = packet[0];
  if constexpr (C.gathered) {
    if (head.has(pool::Handle::key))
      return queue::eth_send(c, {0, head.length, q.slots->keys[head.index]}, q.offload,
                             unsignalled);
  }
  if constexpr (C.multi_seg) {
    if (packet.size() > 1) return append_chain(q, c, packet);
  }
  KILIM_ASSERT(packet.size() == 1);
  return queue::eth_send(c, {q.arena.address(head).value(), head.length, q.key}, q.offload,
                         unsignalled);
}

#if defined(__SSE4_1__)
// Appends one row from the front of `in`, as long as there is room; returns the packets, 0: none,
// or one of them is empty.
template <typename Row, Simd S>
[[gnu::always_inline]] inline uint32_t append_one_row(TxQueue& q, queue::WqeCursor& c,
                                                      std::span<const pool::Handle> in,
                                                      uint64_t& bytes) noexcept {
  const std::span<pool::Handle> sent = q.sent.row();
  const std::size_t most = Row::most(c);
  std::size_t n = sent.size() < most ? sent.size() : most;
  n = in.size() < n ? in.size() : n;
  if (n < Row::least) return 0;
  const RowShape shape{&q.arena, q.key, q.offload, unsignalled.flags};
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
    n = append_one_row<typename RowOf<C, S>::Type, S>(q, c, in.subspan(taken), bytes);
    if (n == 0) break;
  }
#endif
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
  uint32_t n = 0;
  for (const std::span<const pool::Handle> part : {done.first, done.second}) {
    detail::free_sent<C>(q, part);
    n += static_cast<uint32_t>(part.size());
  }
  return n;
}

template <TxConfig C, Simd S>
uint32_t detail::transmit(TxQueue& q, std::span<const pool::Handle> in) noexcept {
  tx_reclaim<C>(q);
  if (q.failed) [[unlikely]]
    return 0;
  queue::WqeCursor c{q.sq};
  uint64_t bytes = 0;
  uint32_t taken = append_rows<C, S>(q, c, in, bytes);
  uint32_t packets = taken;
  while (taken < in.size()) {
    uint32_t pieces = 1;
    if constexpr (C.multi_seg || C.gathered) pieces = chain_length(in.subspan(taken));
    if (pieces == 0 || q.sent.room() < pieces) break;
    const std::span<const pool::Handle> packet = in.subspan(taken, pieces);
    if (!append<C>(q, c, packet)) break;
    for (const pool::Handle h : packet) q.sent.push(h);
    bytes += bytes_of<C>(packet);
    taken += pieces;
    packets++;
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
// whole packets only. The caller keeps the others. It stops at an empty packet, which no device
// sends: the caller drops that before it tries again.
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

// How many packets of one piece the next burst is sure to take.
inline uint32_t tx_room(const TxQueue& q) noexcept {
  if (q.failed) return 0;
  const uint32_t blocks = q.sq.credits().value();
  return blocks < q.sent.room() ? blocks : q.sent.room();
}

}  // namespace kilim::burst
