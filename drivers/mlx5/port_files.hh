// SPDX-License-Identifier: BSD-3-Clause
// Counters of a port that mlx5_ib shows in sysfs. Control path, any thread; opens and reads files,
// so never in a burst.
#pragma once

#include <cstdint>
#include <string>

#include "kilim/detail/device/port_losses.hh"

namespace kilim::mlx5 {

// `sysfs` is /sys or the tree that replaces it, `device` the name from ibv_get_device_name().
std::string port_folder(const std::string& sysfs, const std::string& device, uint8_t port);

// By cause where the port has files of them; else the sums that the InfiniBand architecture names
// (PortCounters of C16: PortRcvErrors, PortXmitDiscards), which cards of mlx5_ib report of the
// physical port (Linux, drivers/infiniband/hw/mlx5/mad.c, pma_cnt_assign()).
device::PortLosses read_port_losses(const std::string& port_folder);

}  // namespace kilim::mlx5
