// SPDX-License-Identifier: BSD-3-Clause
// VerbsWindows: makes memory windows by ibv_alloc_mw(), in one protection domain. Kilim's WQEs bind
// them (umr/window.hh), never libmlx5's.
// Owner: the device. Any thread, one mutex; never in a burst.
#pragma once

#include <mutex>
#include <unordered_map>

#include "kilim/detail/mr/window_source.hh"
#include "mlx5/handle.hh"

namespace kilim::mlx5 {

class VerbsWindows final : public mr::WindowSource {
 public:
  // `type1`, `type2`: whether the device has windows of that type. `pd` outlives the windows.
  VerbsWindows(ibv_pd* pd, bool type1, bool type2) noexcept
      : pd_(pd), type1_(type1), type2_(type2) {}
  Result<Rkey> create_window(mr::WindowType type) override;
  Status destroy_window(Rkey key) override;

 private:
  ibv_pd* pd_;
  bool type1_, type2_;
  std::mutex mutex_;
  std::unordered_map<uint32_t, VerbsMw> windows_;  // by index: the tag changes
};

}  // namespace kilim::mlx5
