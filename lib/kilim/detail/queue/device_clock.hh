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
  // nanoseconds (as mlx5dv_ts_to_ns(3)). The product has 128 bits: Linux gives a clock of 1 GHz a
  // multiplier of 2^31, with which 64 bits are full after 8.6 s
  // (drivers/net/ethernet/mellanox/mlx5/core/lib/clock.c, mlx5_timecounter_init()).
  [[nodiscard]] uint64_t ns(uint64_t stamp) const noexcept {
    constexpr uint64_t second = 1'000'000'000;
    if (!ticks_) return (stamp >> 32) * second + (stamp & 0xffffffff);
    const uint64_t later = (stamp - sample_.ticks) & sample_.mask;
    if (later <= sample_.mask / 2)
      return sample_.ns + shifted(Wide{later} * sample_.mult + sample_.fraction);
    const Wide before = Wide{(sample_.ticks - stamp) & sample_.mask} * sample_.mult;
    return sample_.ns - (before > sample_.fraction ? shifted(before - sample_.fraction) : 0);
  }
  // For so many nanoseconds behind the sample ns() is right; who goes on needs another one by then.
  [[nodiscard]] uint64_t good_for_ns() const noexcept {
    if (!ticks_) return ~uint64_t{0};
    const Wide range = Wide{sample_.mask / 2} * sample_.mult >> sample_.shift;
    return range > ~uint64_t{0} ? ~uint64_t{0} : static_cast<uint64_t>(range);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  [[nodiscard]] uint64_t shifted(Wide product) const noexcept {
    return static_cast<uint64_t>(product >> sample_.shift);
  }

  ClockSample sample_{};
  bool ticks_ = false;
};

}  // namespace kilim::inline v1::queue
