// SPDX-License-Identifier: BSD-3-Clause
// DeviceClock: makes nanoseconds of UTC out of the stamps that completions carry. A value that a
// worker copies (Device::clock()); one that is copied anew now and then follows the adjustments of
// the host's clock. Any thread; never calls the system.
#pragma once

#include <cstdint>

namespace kilim::inline v1::queue {

// What the kernel knows of a device's clock (mlx5dv_get_clock_info(3)): at `ticks` it was `ns`.
struct ClockSample {
  uint64_t ticks = 0;
  uint64_t ns = 0;        // of UTC
  uint64_t fraction = 0;  // of a nanosecond, in units of 2^-shift
  uint32_t mult = 1, shift = 0;
  uint64_t mask = ~uint64_t{0};  // bits of a stamp that count
};

class DeviceClock {
 public:
  // Stamps are seconds, in the upper half, and nanoseconds already: of completion queues made with
  // CqRequest::real_time.
  DeviceClock() = default;
  // Stamps are ticks.
  explicit DeviceClock(const ClockSample& sample) noexcept : sample_(sample), ticks_(true) {}

  // The time of a stamp before or behind the sample, by up to half the clock's range: of UTC, in
  // nanoseconds (as mlx5dv_ts_to_ns(3)).
  [[nodiscard]] uint64_t ns(uint64_t stamp) const noexcept {
    constexpr uint64_t second = 1'000'000'000;
    if (!ticks_) return (stamp >> 32) * second + (stamp & 0xffffffff);
    const uint64_t later = (stamp - sample_.ticks) & sample_.mask;
    if (later <= sample_.mask / 2)
      return sample_.ns + ((later * sample_.mult + sample_.fraction) >> sample_.shift);
    const uint64_t before = (sample_.ticks - stamp) & sample_.mask;
    return sample_.ns - ((before * sample_.mult - sample_.fraction) >> sample_.shift);
  }

 private:
  ClockSample sample_{};
  bool ticks_ = false;
};

}  // namespace kilim::inline v1::queue
