// SPDX-License-Identifier: BSD-3-Clause
// The telemetry endpoint /kilim/odp: statistics of on-demand paging by device, each value or "not
// reported"; "/kilim/odp,NAME" for one device. A ShownDevice shows a device as long as it lives.
// Any thread; EAL's telemetry thread reads.
#pragma once

#include "kilim/device/device.hh"

namespace kilim::telemetry {

class ShownDevice {
 public:
  // `device` outlives it, and its odp_statistics() may be called by EAL's telemetry thread.
  explicit ShownDevice(device::Device& device);
  ~ShownDevice();
  ShownDevice(const ShownDevice&) = delete;
  ShownDevice& operator=(const ShownDevice&) = delete;

 private:
  device::Device& device_;
};

}  // namespace kilim::telemetry
