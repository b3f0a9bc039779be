// SPDX-License-Identifier: BSD-3-Clause
// Latency: how long packets lay between their arrival, by the device's time stamp, and their
// receive, in classes that double. One worker adds, any thread reads.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kilim/detail/base/counter.hh"
#include "kilim/queue.hh"

namespace kilim::testpmd {

class Latency {
 public:
  // Class i has latencies of 2^(i-1) to 2^i - 1 ns, the last one all above.
  static constexpr std::size_t classes = 40;
  using Counts = std::array<uint64_t, classes>;

  // Main thread, before the worker runs: the clocks of ports, by number.
  void set_clock(std::size_t port, const queue::DeviceClock& clock) {
    if (port < clocks_.size()) clocks_[port] = clock;
  }
  [[nodiscard]] const queue::DeviceClock& clock(std::size_t port) const noexcept {
    return clocks_[port < clocks_.size() ? port : 0];
  }
  void add(uint64_t ns) noexcept {
    const auto i = static_cast<std::size_t>(std::bit_width(ns));
    counts_[i < classes ? i : classes - 1].add(1);
  }
  void add_to(Counts& sum) const noexcept {
    for (std::size_t i = 0; i < classes; i++) sum[i] += counts_[i].read();
  }

 private:
  std::array<queue::DeviceClock, 64> clocks_;
  std::array<Counter, classes> counts_;
};

// The upper edge in nanoseconds of the class that has the packet at `share` (0 to 1) of all; 0:
// there are none.
uint64_t latency_at(const Latency::Counts& counts, double share) noexcept;
// Lines for people, one for each class between the first and last that is not empty.
std::string latency_text(const Latency::Counts& counts);

}  // namespace kilim::testpmd
