// SPDX-License-Identifier: BSD-3-Clause
// Transmit in rows: of a burst's packets those that can share a row's instructions go to it, by the
// burst's configuration and by what they ask for. Owner: the worker of the queue; called by the
// burst (burst/tx.hh). Never allocates from a heap, blocks, logs or calls the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "kilim/detail/burst/config.hh"
#include "kilim/detail/burst/sent_ring.hh"
#include "kilim/detail/burst/simd.hh"
#include "kilim/detail/burst/tx_asking.hh"
#include "kilim/detail/burst/tx_chain.hh"
#include "kilim/detail/burst/tx_four.hh"
#include "kilim/detail/burst/tx_packet.hh"
#include "kilim/detail/burst/tx_queue.hh"
#include "kilim/detail/burst/tx_row.hh"
#include "kilim/detail/pool/handle.hh"
#include "kilim/detail/queue/eth_row.hh"
#include "kilim/detail/queue/mpw_row.hh"
#include "kilim/detail/queue/wqe_cursor.hh"

namespace kilim::inline v1::burst::detail {

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
  bool all;
  if constexpr (S == Simd::avx2)
    all = append_row_avx2<Row>(c, shape, in.first(n), sent.data(), bytes);
  else
    all = append_row<Row>(c, shape, in.first(n), sent.data(), bytes);
  if (!all) return 0;
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

// The rows behind a burst's first: where that ended with the ring, or with the longest WQE.
template <typename Row, Simd S>
[[gnu::noinline]] uint32_t append_more_rows(TxQueue& q, queue::WqeCursor& c,
                                            std::span<const pool::Handle> in,
                                            uint64_t& bytes) noexcept {
  uint32_t taken = 0;
  for (uint32_t n; taken < in.size(); taken += n) {
    n = append_one_row<Row, S>(q, c, in.subspan(taken), q.offload, bytes);
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
  uint32_t n = 0;
#if defined(__SSE4_1__)
  if (C.multi_seg || C.gathered || c.has_pending_fence() || in.empty()) return 0;
  using Row = typename RowOf<C, S>::Type;
  n = append_one_row<Row, S>(q, c, in, q.offload, bytes);
  if (n == in.size()) [[likely]]
    return n;
  if (n != 0) {
    queue::WqeCursor aside = c.aside();
    uint64_t more = 0;  // `bytes` stays in a register
    n += append_more_rows<Row, S>(q, aside, in.subspan(n), more);
    bytes += more;
    c.resume(aside);
  }
#endif
  return n;
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

}  // namespace kilim::inline v1::burst::detail
