// SPDX-License-Identifier: BSD-3-Clause
// OdpFiles: reads the statistics of on-demand paging from the files that the vendor documents:
// seven in the device's uverbs folder of sysfs, four in its folder of debugfs. A virtual device has
// them in a tree of its own. Owner: the device. Any thread; opens and reads files, so never in a
// burst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kilim/detail/device/odp_statistics.hh"

namespace kilim::mlx5 {

// The number in a sysfs file; nullopt: the file is missing or contains no number.
std::optional<uint64_t> read_number(const std::string& path);

class OdpFiles {
 public:
  // `sysfs` is /sys or the tree that replaces it; `device` the name from ibv_get_device_name(),
  // `uverbs` its uverbsN.
  OdpFiles(const std::string& sysfs, const std::string& device, const std::string& uverbs);
  // Counters whose file is missing or contains no number are "not reported".
  [[nodiscard]] device::OdpStatistics read() const;

 private:
  std::string standard_;
  std::string debug_;
};

}  // namespace kilim::mlx5
