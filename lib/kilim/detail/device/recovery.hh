// SPDX-License-Identifier: BSD-3-Clause
// Recovers a queue pair after an error: flushes what is posted, handles every completion, and takes
// the queue pair through RESET. Bounded in time, also if the device is dead.
// The caller owns the queues meanwhile (their worker keeps away); control path, may wait. The
// completion queues have no other queue pair.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/device.hh"
#include "kilim/detail/queue/completion.hh"
#include "kilim/detail/queue/cq.hh"
#include "kilim/detail/queue/rq.hh"
#include "kilim/detail/queue/sq.hh"

namespace kilim::inline v1::device {

// The queue pair to recover, and the library's view of its queues. Rq: queue::Rq, or what has its
// posted().
template <typename Rq = queue::Rq>
struct Recovery {
  Device& device;
  QpHandle qp;
  queue::Sq& sq;
  queue::Cq& send_cq;
  Rq* rq = nullptr;  // null: it has no receive queue
  queue::Cq* recv_cq = nullptr;
  std::chrono::milliseconds limit{500};  // longest wait for the flush
};

namespace detail {

// Polls a completion queue once; returns the number of completions. Those of sends that an earlier
// recovery has given up, and told of as lost, are passed over.
template <typename Rq, typename Sink>
uint32_t drain_once(const Recovery<Rq>& r, queue::Cq& cq, Sink& sink) noexcept {
  queue::Completion c[16];
  const uint32_t n = cq.poll(c);
  for (uint32_t i = 0; i < n; i++)
    if (!c[i].of_requester() || !r.sq.idle()) sink.completed(c[i]);
  return n;
}

template <typename Rq>
bool drained(const Recovery<Rq>& r) noexcept {
  return r.sq.idle() && (r.rq == nullptr || r.rq->posted() == 0);
}

}  // namespace detail

// Sink::completed(const Completion&) is called for each completion that the device writes, flush
// errors included, and retires its WQE. Sink::lost(wr_id, signalled) is called for each send that
// the device never completes. So every request that asked for a completion ends exactly once.
// Afterwards the caller resets its queues, also after an error; a queue pair of a dead device stays
// unusable.
template <typename Rq, typename Sink>
Status recover(const Recovery<Rq>& r, Sink& sink) noexcept {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + r.limit;
  const bool alive = r.device.fail(r.qp).ok();
  // A dead device may have written completions before it died: they are handled too.
  do {
    uint32_t n = 0;
    if (alive) r.device.progress();
    n += detail::drain_once(r, r.send_cq, sink);
    if (r.recv_cq != nullptr) n += detail::drain_once(r, *r.recv_cq, sink);
    if (n == 0 && !alive) break;
  } while (!detail::drained(r) && Clock::now() < deadline);
  r.sq.abandon([&sink](uint64_t id, bool signalled) noexcept { sink.lost(id, signalled); });
  if (Status s = r.device.reset(r.qp); !s) return s;
  // Completions from before the reset that arrive after the deadline are dropped.
  queue::Completion late[16];
  while (r.send_cq.poll(late) != 0) {
  }
  r.send_cq.restore_record();
  if (r.recv_cq == nullptr) return Done{};
  while (r.recv_cq->poll(late) != 0) {
  }
  r.recv_cq->restore_record();
  return Done{};
}

}  // namespace kilim::inline v1::device
