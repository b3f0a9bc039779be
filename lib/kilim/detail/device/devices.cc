// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/device/devices.hh"

#include "kilim/detail/base/roster.hh"

namespace kilim::inline v1::device {

namespace {

constinit Roster<Device> opened;

}  // namespace

void enter(Device& device) {
  opened.enter(device);
}

void leave(Device& device) noexcept {
  opened.leave(device);
}

void walk_devices(Visit<Device> see) {
  opened.walk(see);
}

}  // namespace kilim::inline v1::device
