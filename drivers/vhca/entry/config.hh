// SPDX-License-Identifier: BSD-3-Clause
// What is known of a virtual adapter before a process opens it, and how the launcher hands it to
// the processes that it starts: in environment variables KILIM_VHCA_*. Values, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "kilim/detail/base/result.hh"
#include "vhca/core/spec.hh"
#include "vhca/entry/attach.hh"

namespace kilim::vhca::entry {

struct DeviceConfig {
  DeviceSpec attach;             // name, profile, wires, seed, journal, progress, lint, order
  uint32_t number = 0;           // N of uverbsN
  std::string tree;              // the sysfs tree that shows it
  std::string netdev;            // the network interface that was made for its port; empty: none
  bool netdev_answered = false;  // no kernel knows it: its ioctls are answered (entry/netdev.hh)
  bool netdev_hidden = false;    // it is of another network namespace than /sys is

  [[nodiscard]] dev_t rdev() const noexcept;
};

// Of /dev/infiniband/rdma_cm, a miscellaneous device.
dev_t rdma_cm_rdev() noexcept;

// A name that sysfs and libibverbs take: 1 to 32 of [A-Za-z0-9_.-], not beginning with '.'.
bool name_is_valid(std::string_view name) noexcept;

// "02:4b:4c:00:00:01"; nothing: this is no address of one station.
std::optional<Mac> parse_mac(std::string_view text) noexcept;

// An IPv6 address as a GID, "fd00::1"; nothing: this is none of one station, or a link-local one,
// which follows from the port's address.
std::optional<Gid> parse_gid(std::string_view text) noexcept;

// The address of port 1: the one that is named, else a locally administered one that is the same
// for the same name and seed.
Mac mac_of(const DeviceSpec& config) noexcept;

// One set-up of the launcher: equal devices with consecutive names, numbers and, where one
// is named, addresses.
struct LaunchConfig {
  std::string tree;  // its sysfs tree; empty: not under the launcher
  uint32_t devices = 1;
  uint32_t first_number = 0;
  DeviceSpec attach;                 // `name` is the prefix; the k-th wire is the k-th device's
  std::vector<std::string> netdevs;  // the k-th is the k-th device's
  bool netdevs_carry = false;        // frames pass them: DeviceSpec::netdev
  bool netdevs_answered = false;
  bool netdevs_hidden = false;  // the launcher's own business: not in the environment

  [[nodiscard]] DeviceConfig device(uint32_t k) const;
};

// To and from the environment; from: `tree` is empty where there is none.
void put_in_environment(const LaunchConfig& config);
LaunchConfig find_in_environment();

}  // namespace kilim::vhca::entry
