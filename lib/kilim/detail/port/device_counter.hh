// SPDX-License-Identifier: BSD-3-Clause
// DeviceCounter: what a 32-bit counter of the device has counted since the first reading. The
// device itself counts since it was registered, wraps at 2^32 (out_of_buffer of QUERY_Q_COUNTER;
// DPDK mlx5_stats.c handles it likewise), and cannot always be read. Owner: the control lcore.
#pragma once

#include <cstdint>
#include <optional>

namespace kilim::inline v1::port {

class DeviceCounter {
 public:
  // Adds a reading of the device's counter, if there is one; returns the count since the first
  // reading.
  uint64_t read(std::optional<uint64_t> now) noexcept {
    if (!now) return sum_;
    if (last_) sum_ += static_cast<uint32_t>(*now - *last_);
    last_ = now;
    return sum_;
  }

 private:
  std::optional<uint64_t> last_;
  uint64_t sum_ = 0;
};

}  // namespace kilim::inline v1::port
