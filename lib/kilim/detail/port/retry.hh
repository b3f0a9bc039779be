// SPDX-License-Identifier: BSD-3-Clause
// Retry: when something that failed is tried again: each time after twice as long as before, up to
// a limit. Owner: who tries, for each thing one; it waits for nothing and reads no clock by itself
// in due(). Control lcore.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace kilim::inline v1::port {

class Retry {
 public:
  static constexpr uint64_t first_ns = 10'000'000;
  // A try may wait half a second for a device that says nothing (device/recovery.hh), which is a
  // tenth of the control lcore's time then.
  static constexpr uint64_t longest_ns = 5'000'000'000;

  // Nanoseconds of a clock that only goes forward.
  static uint64_t now_ns() noexcept {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }
  // Whether its time has come. True also before the first failure.
  [[nodiscard]] bool due(uint64_t now_ns) const noexcept { return now_ns >= next_ns_; }
  void failed(uint64_t now_ns) noexcept {
    pause_ns_ = pause_ns_ == 0 ? first_ns : std::min(2 * pause_ns_, longest_ns);
    next_ns_ = now_ns + pause_ns_;
  }

 private:
  uint64_t next_ns_ = 0;
  uint64_t pause_ns_ = 0;
};

}  // namespace kilim::inline v1::port
