// SPDX-License-Identifier: BSD-3-Clause
// LossCounters: what a device has lost of a port's frames since the first reading, as members of
// PortStats. Owner: the port, whose lock is held. Reads sysfs files, so never in a burst.
#pragma once

#include <array>

#include "kilim/detail/device/device.hh"
#include "kilim/detail/port/device_counter.hh"
#include "kilim/detail/port/stats.hh"

namespace kilim::inline v1::port {

class LossCounters {
 public:
  // Only the members that count losses are set.
  PortStats read(const device::Device& device, uint8_t port) noexcept {
    using device::PortLoss;
    const device::PortLosses now = device.losses(port);
    std::array<uint64_t, device::port_losses> since;
    for (std::size_t i = 0; i < since.size(); i++) since[i] = counters_[i].read(now.values[i]);
    auto of = [&since](PortLoss l) { return since[static_cast<std::size_t>(l)]; };
    PortStats s;
    s.rx_discards = of(PortLoss::rx_discards);
    s.rx_missed = missed_.read(device.out_of_buffer(port)) + s.rx_discards + of(PortLoss::rx_down);
    s.rx_damaged = of(PortLoss::rx_damaged);
    s.rx_undersize = of(PortLoss::rx_undersize);
    s.rx_oversize = of(PortLoss::rx_oversize);
    s.rx_no_rule = of(PortLoss::rx_steer_missed);
    s.rx_cut = of(PortLoss::rx_cut);
    s.rx_returned = of(PortLoss::rx_returned);
    s.tx_lost = of(PortLoss::tx_discards);
    return s;
  }

 private:
  DeviceCounter missed_;
  std::array<DeviceCounter, device::port_losses> counters_;
};

}  // namespace kilim::inline v1::port
