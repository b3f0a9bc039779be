// SPDX-License-Identifier: BSD-3-Clause
// The virtual devices that this process can see. Devices are added (attach, or all of the
// launcher's at the first look) and never removed, only hidden; finding one takes no lock. The
// adapter of a device is made when it is first asked for, and anew in a forked child.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kilim/detail/base/result.hh"
#include "vhca/core/lock.hh"
#include "vhca/entry/config.hh"
#include "vhca/entry/instance.hh"

namespace kilim::vhca::entry {

class Device {
 public:
  Device(DeviceConfig config, Profile profile) : config_(std::move(config)), profile_(profile) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const DeviceConfig& config() const noexcept { return config_; }
  [[nodiscard]] const Profile& profile() const noexcept { return profile_; }
  // This process's adapter, made where there is none yet.
  // `tells`: why a wire cannot be had is said on stderr, for programs that only hear an errno.
  Result<Instance*> instance(bool tells = true);
  // Null where there is none yet.
  [[nodiscard]] Instance* live() const noexcept { return live_.load(std::memory_order_acquire); }

  [[nodiscard]] bool hidden() const noexcept { return hidden_.load(std::memory_order_relaxed); }
  // Takes it off the list; who has it open keeps it. Any thread.
  void hide() noexcept { hidden_.store(true, std::memory_order_relaxed); }

 private:
  friend struct ForkHandlers;
  const DeviceConfig config_;
  const Profile profile_;
  std::atomic<Instance*> live_{nullptr};  // never destroyed: other threads may be in it
  std::atomic<bool> hidden_{false};
};

namespace device_list {

// Who attaches or detaches holds it, before the list's own; so does fork().
extern Lock attach_lock;

// EINVAL: unknown profile; ENOSPC: too many devices.
Result<Device*> add(DeviceConfig config);
// Null: none, or hidden.
Device* find_name(std::string_view name) noexcept;
// By "/dev/infiniband/uverbsN".
Device* find_path(const char* path) noexcept;
// Devices by place, hidden ones too; places below count() stay what they are.
std::size_t count() noexcept;
Device* at(std::size_t i) noexcept;

}  // namespace device_list

}  // namespace kilim::vhca::entry
