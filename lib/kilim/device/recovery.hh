// SPDX-License-Identifier: BSD-3-Clause
// Brings a queue pair that had an error back to work: what is posted is flushed, every completion
// is handed out, the queue pair goes through RESET. Bounded in time, also where the device is dead.
// Whoever calls owns the queues at that moment (their worker keeps away); control path, may wait.
// The completion queues serve no other queue pair.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>

#include "kilim/base/result.hh"
#include "kilim/device/device.hh"
#include "kilim/queue/completion.hh"
#include "kilim/queue/cq.hh"
#include "kilim/queue/rq.hh"
#include "kilim/queue/sq.hh"

namespace kilim::device {

struct Recovery {
  Device& device;
  QpHandle qp;
  queue::Sq& sq;
  queue::Cq& send_cq;
  queue::Rq* rq = nullptr;  // where it receives
  queue::Cq* recv_cq = nullptr;
  std::chrono::milliseconds limit{500};  // for the device to flush
};

namespace detail {

// One look at a queue; how many completions.
template <typename Sink>
uint32_t drain_once(queue::Cq& cq, Sink& sink) noexcept {
  queue::Completion c[16];
  const uint32_t n = cq.poll(c);
  for (uint32_t i = 0; i < n; i++) sink.completed(c[i]);
  return n;
}

inline bool drained(const Recovery& r) noexcept {
  return r.sq.idle() && (r.rq == nullptr || r.rq->posted() == 0);
}

}  // namespace detail

// Sink::completed(const Completion&) retires what the completion names: each that the device
// writes, errors of the flush included. Sink::lost(wr_id, signalled): a send that the device never
// completed. So every request that asked for a completion ends exactly once. Afterwards the caller
// resets its queues, also where this fails; a queue pair of a dead device stays out of use.
template <typename Sink>
Status recover(const Recovery& r, Sink& sink) noexcept {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + r.limit;
  const bool alive = r.device.fail(r.qp).ok();
  // A dead device may have written some before it died: what is there is taken.
  do {
    uint32_t n = 0;
    if (alive) r.device.progress();
    n += detail::drain_once(r.send_cq, sink);
    if (r.recv_cq != nullptr) n += detail::drain_once(*r.recv_cq, sink);
    if (n == 0 && !alive) break;
  } while (!detail::drained(r) && Clock::now() < deadline);
  r.sq.give_up([&sink](uint64_t id, bool signalled) noexcept { sink.lost(id, signalled); });
  if (Status s = r.device.reset(r.qp); !s) return s;
  // Completions of before the reset that came after the deadline belong to nobody.
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

}  // namespace kilim::device
