// SPDX-License-Identifier: BSD-3-Clause
// The open devices of this process, in the order in which they were opened. A driver's device
// enters itself when it is complete and leaves first of all when it is destroyed. Any thread;
// locks.
#pragma once

#include "kilim/detail/base/roster.hh"
#include "kilim/detail/device/device.hh"

namespace kilim::inline v1::device {

void enter(Device& device);
// Waits for a walk that is under way.
void leave(Device& device) noexcept;

// Shows each device to a function, which may call what "any thread" stands behind, and neither
// opens nor closes one.
void walk_devices(Visit<Device> see);

}  // namespace kilim::inline v1::device
