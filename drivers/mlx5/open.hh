// SPDX-License-Identifier: BSD-3-Clause
// Opens an adapter by its verbs name as a Device, over unmodified libibverbs and libmlx5: a card,
// or a virtual adapter that has been attached before.
// Any thread; control path only.
#pragma once

#include <memory>
#include <string>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/device.hh"

namespace kilim::mlx5 {

// The function that Device::progress() calls; empty for a card.
struct Progress {
  void (*run)(void* arg) = nullptr;
  void* arg = nullptr;
};

// ENODEV: there is no adapter of this name; EOPNOTSUPP: it is no mlx5 adapter.
// `sysfs` is the root for the adapter's statistics; for an attached virtual one vhca::sysfs_root().
Result<std::unique_ptr<device::Device>> open(const char* name, Progress progress = {},
                                             const std::string& sysfs = "/sys");

}  // namespace kilim::mlx5
