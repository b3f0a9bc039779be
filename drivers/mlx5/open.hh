// SPDX-License-Identifier: BSD-3-Clause
// Opens an adapter by its verbs name as a Device, over unmodified libibverbs and libmlx5: a card,
// or a virtual adapter that has been attached before.
// Any thread; control path only.
#pragma once

#include <memory>

#include "kilim/base/result.hh"
#include "kilim/device/device.hh"

namespace kilim::mlx5 {

// What Device::progress() calls; nothing for a card.
struct Progress {
  void (*run)(void* arg) = nullptr;
  void* arg = nullptr;
};

// ENODEV: no adapter of this name; EOPNOTSUPP: not an mlx5 one.
Result<std::unique_ptr<device::Device>> open(const char* name, Progress progress = {});

}  // namespace kilim::mlx5
