// SPDX-License-Identifier: BSD-3-Clause
// Statistics of on-demand paging from the files that the vendor's documents name: seven under the
// device's uverbs folder of sysfs, four under its folder of debugfs. A virtual device has them in a
// tree of its own.
// Owner: the device. Any thread; opens and reads files, so never in a burst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kilim/device/odp_statistics.hh"

namespace kilim::mlx5 {

// What a file of sysfs says; nothing: it is missing or holds no number.
std::optional<uint64_t> read_number(const std::string& path);

class OdpFiles {
 public:
  // `sysfs` is what stands for /sys; `device` as ibv_get_device_name() says, `uverbs` its uverbsN.
  OdpFiles(const std::string& sysfs, const std::string& device, const std::string& uverbs);
  // A file that is missing or holds no number is not reported.
  [[nodiscard]] device::OdpStatistics read() const;

 private:
  std::string standard_;
  std::string debug_;
};

}  // namespace kilim::mlx5
