// SPDX-License-Identifier: BSD-3-Clause
// WaitSet: what a worker waits for when it sleeps: descriptors of its pollers, and the latest time
// to wake. Filled anew before each sleep. Owner: the worker, on its thread. Never allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include <poll.h>

namespace kilim::inline v1::worker {

class WaitSet {
 public:
  static constexpr uint32_t most = 256;  // descriptors
  static constexpr uint64_t never = UINT64_MAX;

  // Wakes when `fd` is readable. Without room for it the sleep is a short one: see crowded().
  void add(int fd) noexcept {
    if (count_ == most) {
      crowded_ = true;
      return;
    }
    fds_[count_++] = {fd, POLLIN, 0};
  }
  // Wakes at this time of CLOCK_MONOTONIC, in nanoseconds, at the latest.
  void until(uint64_t ns) noexcept { deadline_ns_ = std::min(deadline_ns_, ns); }

  [[nodiscard]] std::span<pollfd> fds() noexcept { return {fds_.data(), count_}; }
  [[nodiscard]] uint64_t deadline_ns() const noexcept { return deadline_ns_; }
  [[nodiscard]] bool crowded() const noexcept { return crowded_; }
  void clear() noexcept {
    count_ = 0;
    crowded_ = false;
    deadline_ns_ = never;
  }

 private:
  std::array<pollfd, most> fds_{};
  uint32_t count_ = 0;
  bool crowded_ = false;
  uint64_t deadline_ns_ = never;
};

}  // namespace kilim::inline v1::worker
