// SPDX-License-Identifier: BSD-3-Clause
// The telemetry endpoint /kilim/odp: each device's statistics of on-demand paging, by name. The
// documents' names, the value or "not reported". With a device's name behind a comma, that one's.
// Whoever opened a device shows it as long as it lives. Any thread; EAL's telemetry thread reads.
#pragma once

#include "kilim/device/device.hh"

namespace kilim::telemetry {

class ShownDevice {
 public:
  explicit ShownDevice(device::Device& device);
  ~ShownDevice();
  ShownDevice(const ShownDevice&) = delete;
  ShownDevice& operator=(const ShownDevice&) = delete;

 private:
  device::Device& device_;
};

}  // namespace kilim::telemetry
