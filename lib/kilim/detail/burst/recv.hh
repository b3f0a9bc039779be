// SPDX-License-Identifier: BSD-3-Clause
// Receive burst of connections, with a receive queue of their own or a shared one. Messages arrive
// in buffers of the pool; short ones in their CQE (inline receive), and their buffer is reused.
// Owner: the queue's worker. Never allocates from a heap, blocks, logs or calls the system.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/flag.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/pool/pool.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/inline_recv.hh"
#include "kilim/detail/queue/rq.hh"
#include "kilim/detail/queue/srq.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::inline v1::burst {

// Counts since the queue was made. Its worker adds, any thread reads.
struct RecvCounters {
  Counter messages, bytes;        // of all received messages
  queue::InlineCounters inlined;  // of messages that arrived in their CQE
  Counter errors;                 // completions with an error; their buffers were freed
  Counter no_buffer;              // refills that found the pool empty
};

// One receive queue as a burst uses it: Queue is queue::Rq or queue::Srq. Its maker keeps queue
// memory and pool alive. The completion queue has receives only.
template <typename Queue>
struct RecvQueue {
  Queue rq;  // a WQE's wr id is the index of its buffer
  queue::Cq cq;
  pool::BufferCache* cache;  // of the same worker
  pool::Arena arena;
  Lkey key;                 // of the arena, for this device
  uint16_t head_lines = 0;  // 64-byte lines left free before the data
  uint16_t refill_at = 32;  // fewest free WQEs for which a doorbell is rung
  Flag failed{};            // an error ended the queue pair of an Rq: nothing is posted any more
  RecvCounters counters{};
};

// The place of a message's bytes. entry: in the CQE, valid during the callback only. buffer: in a
// buffer, which the caller holds from now on. nowhere: an error, an RDMA_WRITE_IMM, or an empty
// message.
enum class Where : uint8_t { nowhere, entry, buffer };

// One completion of the receive queue, and its data.
struct Message {
  queue::Completion completion;
  std::span<const std::byte> bytes;
  Where where = Where::nowhere;
  pool::Handle buffer;  // where the bytes are in it
};

namespace detail {

template <typename Queue>
void recv_untouched(RecvQueue<Queue>& q, uint32_t index, Message& m, Where where) noexcept {
  m.where = where;
  q.cache->free_indices({&index, 1});
}

template <typename Queue>
[[gnu::noinline, gnu::cold]] void recv_error(RecvQueue<Queue>& q, const prm::Cqe& e,
                                             Message& m) noexcept {
  m.completion = queue::decode_error(e);
  m.bytes = {};
  const auto index = static_cast<uint32_t>(q.rq.wr_id(m.completion.wqe_counter));
  recv_untouched(q, index, m, Where::nowhere);
  q.counters.errors.add(1);
  if constexpr (std::is_same_v<Queue, queue::Rq>) q.failed.set(true);
}

// Finds the message's bytes; frees the buffer if they are not in it.
template <typename Queue>
void locate(RecvQueue<Queue>& q, const prm::Cqe& e, Message& m) noexcept {
  const queue::Completion& c = m.completion;
  const auto index = static_cast<uint32_t>(q.rq.wr_id(c.wqe_counter));
  m.bytes = queue::inline_data(e);
  if (!m.bytes.empty()) return recv_untouched(q, index, m, Where::entry);
  if (c.byte_len == 0 || c.opcode == prm::CqeOpcode::resp_wr_imm) [[unlikely]]
    return recv_untouched(q, index, m, Where::nowhere);
  m.where = Where::buffer;
  m.buffer = pool::make_handle(index, c.byte_len & 0xffff, q.head_lines);
  m.bytes = q.arena.bytes(m.buffer);
}

}  // namespace detail

// Posts buffers until the receive queue is full or the pool is empty.
template <typename Queue>
uint32_t rx_refill(RecvQueue<Queue>& q) noexcept {
  constexpr uint32_t chunk = 64;
  const uint32_t length = q.arena.room() - q.head_lines * static_cast<uint32_t>(cacheline_bytes);
  uint32_t posted = 0;
  for (uint32_t want = q.rq.room(); want != 0;) {
    uint32_t indices[chunk];
    const uint32_t ask = want < chunk ? want : chunk;
    const uint32_t got = q.cache->alloc_indices({indices, ask});
    for (uint32_t i = 0; i < got; i++) {
      const pool::Handle h = pool::make_handle(indices[i], 0, q.head_lines);
      (void)q.rq.post({q.arena.address(h).value(), length, q.key}, indices[i]);
    }
    posted += got;
    want -= got;
    if (got < ask) {
      q.counters.no_buffer.add(1);
      break;
    }
  }
  if (posted != 0) q.rq.ring();
  return posted;
}

// Calls each(const Message&) for up to `limit` messages, the oldest first, errors included; then
// posts new buffers. Returns how many.
template <typename Queue, typename Each>
uint32_t recv_burst(RecvQueue<Queue>& q, uint32_t limit, Each&& each) noexcept {
  constexpr bool in_order = std::is_same_v<Queue, queue::Rq>;
  uint32_t n = 0, errors = 0;
  uint64_t bytes = 0, inlined = 0, inlined_bytes = 0;
  Message m;
  for (const prm::Cqe* e; n < limit && (e = q.cq.peek(n)) != nullptr; n++) {
    if (queue::Cq::is_error(e->op_own)) [[unlikely]] {
      detail::recv_error(q, *e, m);
      errors++;
    } else {
      queue::decode(*e, e->op_own, m.completion);
      detail::locate(q, *e, m);
      bytes += m.bytes.size();
      const bool in_entry = m.where == Where::entry;
      inlined += in_entry ? 1 : 0;
      inlined_bytes += in_entry ? m.bytes.size() : 0;
    }
    each(static_cast<const Message&>(m));
    if constexpr (!in_order) (void)q.rq.retire(m.completion.wqe_counter);
  }
  if (n != 0) {
    if constexpr (in_order) (void)q.rq.retire(m.completion.wqe_counter);
    q.cq.consume(n);
    q.counters.messages.add(n - errors);
    q.counters.bytes.add(bytes);
    q.counters.inlined.messages.add(inlined);
    q.counters.inlined.bytes.add(inlined_bytes);
  }
  if (q.rq.room() >= q.refill_at && !q.failed) rx_refill(q);
  return n;
}

}  // namespace kilim::inline v1::burst
