// SPDX-License-Identifier: BSD-3-Clause
// The linter at the doorbell, for builds where queue::watched is true: every WQE that is announced
// is judged, and a finding is our own mistake. What it takes for under way ends when the queue
// retires it. One a send queue; its worker's. Prints and aborts.
#pragma once

#include "kilim/diag/follow.hh"
#include "kilim/queue/watch.hh"

namespace kilim::diag {

class DoorbellLint : public queue::Watch {
 public:
  // Without `stop` a finding is printed and counted only.
  explicit DoorbellLint(bool stop = true, prm::lint::QueueKind = prm::lint::QueueKind::connected,
                        KeyTraffic* others = nullptr) noexcept;
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
  KeyTraffic* others_;
  uint32_t qpn_ = 0;  // since the first doorbell
  bool stop_;
  uint64_t findings_ = 0;
};

}  // namespace kilim::diag
