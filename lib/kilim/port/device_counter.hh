// SPDX-License-Identifier: BSD-3-Clause
// A counter of the device, as of its owner: from the time that it begins, though the device counts
// since it was registered, in 32 bits that wrap (query Q counter's out_of_buffer, as DPDK's
// mlx5_stats.c takes it), and cannot always be read. Control lcore.
#pragma once

#include <cstdint>
#include <optional>

namespace kilim::port {

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

}  // namespace kilim::port
