// SPDX-License-Identifier: BSD-3-Clause
// The part of sysfs that libibverbs and DPDK's PCI bus read, as real files in a private folder: the
// virtual devices, and links to the machine's own beside them. Owner: the process that made it,
// under a file lock; folders of processes that died are removed by whoever makes the next one. One
// thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "kilim/detail/base/fd.hh"
#include "kilim/detail/base/result.hh"
#include "vhca/core/profile.hh"
#include "vhca/entry/config.hh"
#include "vhca/entry/mapped_file.hh"

namespace kilim::vhca::entry {

class SysfsTree {
 public:
  // In XDG_RUNTIME_DIR or /tmp.
  static Result<SysfsTree> make();
  SysfsTree(SysfsTree&&) noexcept = default;
  SysfsTree& operator=(SysfsTree&&) noexcept = default;

  // What stands for /sys.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // The first N such that neither uverbsN nor a later number belongs to a device of the machine.
  [[nodiscard]] uint32_t first_free_number() const noexcept { return first_free_; }

  Status add(const DeviceConfig& device, const Profile& profile);
  void remove(const DeviceConfig& device) noexcept;
  // This program needs the folder: it stays as long as one of both processes lives.
  void used_by(pid_t program) noexcept;
  // Removes the folder. Not done by a destructor: a forked child has a copy of this object.
  void erase() noexcept;

 private:
  SysfsTree(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  Status link_real_devices();
  Status link_real_functions();

  std::string path_;
  Fd lock_;
  MappedFiles mapped_;
  uint32_t first_free_ = 0;
};

}  // namespace kilim::vhca::entry
