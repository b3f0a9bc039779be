// SPDX-License-Identifier: BSD-3-Clause
// Lane: one queue pair of a test with its queues, and the counts of the current round. One thread;
// only set-up allocates.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kilim/device.hh"
#include "kilim/inline_recv.hh"
#include "kilim/queue.hh"
#include "perf/options.hh"

namespace kilim::perf {

struct LaneConfig {
  uint32_t send_wqebbs = 128;
  uint32_t receives = 0;
  bool umr = false;
  int gid_index = -1;
  uint32_t inline_recv = any_inline;  // as the option
};

class Lane {
 public:
  static Result<std::unique_ptr<Lane>> create(device::Device& device, const LaneConfig& config);

  [[nodiscard]] device::QpHandle qp() const noexcept { return qp_->handle; }
  [[nodiscard]] const device::QpInfo& qp_info() const noexcept { return qp_.info(); }
  queue::Sq& sq() noexcept { return *sq_; }
  queue::Cq& send_cq() noexcept { return *send_cq_; }
  // Only if the lane was made with receives.
  queue::Rq& rq() noexcept { return *rq_; }
  queue::Cq& recv_cq() noexcept { return *recv_cq_; }

  // Messages of the round.
  uint64_t posted = 0, signalled = 0, done = 0;
  uint64_t received = 0;  // of the round, at the side to which is sent
  uint64_t receives = 0;  // posted since the queue was made
  queue::InlineCounters inlined;

  void begin_round() noexcept {
    posted = signalled = done = received = 0;
    inlined = {};
  }

 private:
  Lane() = default;
  device::OwnedCq owned_send_, owned_recv_;
  device::OwnedQp qp_;  // goes first
  std::vector<uint64_t> send_ids_, recv_ids_;
  std::unique_ptr<queue::Sq> sq_;
  std::unique_ptr<queue::Rq> rq_;
  std::unique_ptr<queue::Cq> send_cq_, recv_cq_;
};

}  // namespace kilim::perf
