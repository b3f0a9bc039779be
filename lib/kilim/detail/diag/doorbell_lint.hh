// SPDX-License-Identifier: BSD-3-Clause
// DoorbellLint: checks every WQE at its doorbell, in builds where queue::watched is true. A finding
// is a bug of the program or of this library: it is printed, and the process aborts. One for each
// send queue. Owner: the queue's worker.
#pragma once

#include "kilim/detail/diag/follow.hh"
#include "kilim/detail/queue/watch.hh"

namespace kilim::inline v1::diag {

class DoorbellLint : public queue::Watch {
 public:
  // `stop`: a finding aborts; else findings are printed to stderr and counted only. `others`: the
  // shared record of queues that use each other's keys, which outlives this; null: none.
  explicit DoorbellLint(bool stop = true, prm::lint::QueueKind = prm::lint::QueueKind::connected,
                        MkeyTraffic* others = nullptr) noexcept;
  ~DoorbellLint();
  DoorbellLint(const DoorbellLint&) = delete;
  DoorbellLint& operator=(const DoorbellLint&) = delete;
  [[nodiscard]] uint64_t findings() const noexcept { return findings_; }

 private:
  static void on_doorbell(queue::Watch&, const queue::SqGeometry&, uint32_t first,
                          uint32_t end) noexcept;
  static void on_ended(queue::Watch&, uint32_t until) noexcept;
  Follow follow_;
  prm::lint::QueueKind kind_;
  MkeyTraffic* others_;
  uint32_t qpn_ = 0;  // since the first doorbell
  bool stop_;
  uint64_t findings_ = 0;
};

}  // namespace kilim::inline v1::diag
