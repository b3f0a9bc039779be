// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/odp_files.hh"

#include <cinttypes>
#include <climits>
#include <cstdio>

#include <unistd.h>

namespace kilim::mlx5 {
namespace {

// The device's PCI address, which the documents call <pci-dev-id>: the last part of the target of
// its `device` link in sysfs. The device's name if there is no link.
std::string pci_of(const std::string& sysfs, const std::string& device) {
  char target[PATH_MAX];
  const std::string link = sysfs + "/class/infiniband/" + device + "/device";
  const ssize_t n = ::readlink(link.c_str(), target, sizeof target);
  if (n <= 0 || n == sizeof target) return device;
  const std::string path(target, static_cast<std::size_t>(n));
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

std::optional<uint64_t> read_number(const std::string& path) {
  std::FILE* f = std::fopen(path.c_str(), "re");
  if (f == nullptr) return std::nullopt;
  uint64_t n = 0;
  const bool ok = std::fscanf(f, "%" SCNu64, &n) == 1;
  (void)std::fclose(f);
  return ok ? std::optional{n} : std::nullopt;
}

OdpFiles::OdpFiles(const std::string& sysfs, const std::string& device, const std::string& uverbs)
    : standard_(sysfs + "/class/infiniband_verbs/" + uverbs + "/"),
      debug_(sysfs + "/kernel/debug/mlx5/" + pci_of(sysfs, device) + "/odp_stats/") {}

device::OdpStatistics OdpFiles::read() const {
  device::OdpStatistics s;
  for (std::size_t i = 0; i < device::odp_counters; i++) {
    const bool standard = i < device::odp_standard_counters;
    s.values[i] = read_number((standard ? standard_ : debug_) + device::odp_counter_names[i]);
  }
  // The documents spell this file's name in two ways.
  auto& handled = s.values[static_cast<std::size_t>(device::OdpCounter::num_prefetches_handled)];
  if (!handled) handled = read_number(standard_ + "num_prefetchs_handled");
  return s;
}

}  // namespace kilim::mlx5
