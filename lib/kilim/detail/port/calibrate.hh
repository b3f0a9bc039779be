// SPDX-License-Identifier: BSD-3-Clause
// Measures what copies, data segments and mkeys cost on a device, for a Chooser. Control lcore,
// while the device's queues are idle; takes some tens of milliseconds and 4 MiB, which it gives
// back.
#pragma once

#include "kilim/detail/base/result.hh"
#include "kilim/detail/chooser/chooser.hh"
#include "kilim/detail/device/device.hh"

namespace kilim::inline v1::port {

// By RDMA WRITEs of a connection to itself. A device without UMR gets a chooser without keys. The
// errors are the device's.
Result<chooser::Chooser> calibrate_chooser(device::Device& device);

}  // namespace kilim::inline v1::port
