// SPDX-License-Identifier: BSD-3-Clause
// Receive of connections: messages come in buffers of the pool, short ones in their completion
// entries, where the buffer goes back to the pool untouched. With a receive queue of its own or a
// shared one. Owner: the worker of the queue; no other thread. Never allocates from a heap, blocks,
// logs or calls the system.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "kilim/base/counter.hh"
#include "kilim/base/flag.hh"
#include "kilim/base/ident.hh"
#include "kilim/burst/rx.hh"
#include "kilim/pool/pool.hh"
#include "kilim/prm/cqe.hh"
#include "kilim/queue/cq.hh"
#include "kilim/queue/inline_recv.hh"
#include "kilim/queue/rq.hh"
#include "kilim/queue/srq.hh"

namespace kilim::burst {

struct RecvCounters {
  Counter messages, bytes;        // all that came
  queue::InlineCounters inlined;  // of them, those in their entries
  Counter errors;                 // completions with an error; their buffers were freed
  Counter no_buffer;              // refills that found the pool dry
};

// One receive queue as a burst sees it: Queue is queue::Rq or queue::Srq. Whoever assembles it
// keeps queue memory and pool alive. The completion queue serves receives only.
template <typename Queue>
struct RecvQueue {
  Queue rq;  // a WQE's wr id is the index of its buffer
  queue::Cq cq;
  pool::Stash* stash;  // of the same worker
  pool::Arena arena;
  Lkey key;                 // of the arena, for this device
  uint16_t head_lines = 0;  // lines left free before the data
  uint16_t refill_at = 32;  // free places that make a refill worth its doorbell
  Flag failed{};            // an error ended the queue pair of a queue of its own: no refill
  RecvCounters counters{};
};

// Where a message's bytes are. In the entry: valid during the call only. In the buffer: the caller
// holds it from now on. Nowhere: an error, an immediate that came with a write, or nothing was
// sent.
enum class Where : uint8_t { nowhere, entry, buffer };

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
  q.stash->free_indices({&index, 1});
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

// Where its data is; an untouched buffer goes back at once.
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

// Up to `limit` messages, oldest first, each shown to each(const Message&); those with an error
// too. Then the ring gets new buffers.
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

}  // namespace kilim::burst
