// SPDX-License-Identifier: BSD-3-Clause
// Latency: how long packets lay between their arrival, by the device's time stamp, and their
// receive, in classes that double. One worker adds, any thread reads.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kilim/detail/base/counter.hh"
#include "kilim/device.hh"
#include "kilim/queue.hh"

namespace kilim::testpmd {

class Latency {
 public:
  // Class i has latencies of 2^(i-1) to 2^i - 1 ns, the last one all above.
  static constexpr std::size_t classes = 40;
  using Counts = std::array<uint64_t, classes>;

  // Main thread, before the worker runs: the device whose clock stamps a port's packets.
  void set_clock(std::size_t port, device::Device& device) {
    if (port >= clocks_.size()) return;
    clocks_[port].source = &device;
    renew(clocks_[port], 0);
  }
  // The worker, at this time: what stamps mean now. What it knows of the clock is never old.
  [[nodiscard]] const queue::DeviceClock& clock(std::size_t port, uint64_t now_ns) noexcept {
    PortClock& c = clocks_[port < clocks_.size() ? port : 0];
    if (c.source != nullptr && now_ns >= c.renewal_ns) renew(c, now_ns);
    return c.clock;
  }
  void add(uint64_t ns) noexcept {
    const auto i = static_cast<std::size_t>(std::bit_width(ns));
    counts_[i < classes ? i : classes - 1].add(1);
  }
  void add_to(Counts& sum) const noexcept {
    for (std::size_t i = 0; i < classes; i++) sum[i] += counts_[i].read();
  }

 private:
  struct PortClock {
    device::Device* source = nullptr;  // null: nothing stamps
    queue::DeviceClock clock;
    uint64_t renewal_ns = 0;
  };
  // The last one is kept where the device tells of none.
  static void renew(PortClock& c, uint64_t now_ns) noexcept {
    constexpr uint64_t second = 1'000'000'000;
    if (const auto found = c.source->clock()) c.clock = *found;
    c.renewal_ns = now_ns + std::min(second, c.clock.good_for_ns() / 4);
  }
  std::array<PortClock, 64> clocks_;
  std::array<Counter, classes> counts_;
};

// The upper edge in nanoseconds of the class that has the packet at `share` (0 to 1) of all; 0:
// there are none.
uint64_t latency_at(const Latency::Counts& counts, double share) noexcept;
// Lines for people, one for each class between the first and last that is not empty.
std::string latency_text(const Latency::Counts& counts);

}  // namespace kilim::testpmd
