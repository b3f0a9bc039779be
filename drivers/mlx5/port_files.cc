// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/port_files.hh"

#include "mlx5/odp_files.hh"

namespace kilim::mlx5 {

std::string port_folder(const std::string& sysfs, const std::string& device, uint8_t port) {
  return sysfs + "/class/infiniband/" + device + "/ports/" + std::to_string(port);
}

device::PortLosses read_port_losses(const std::string& port_folder) {
  using device::PortLoss;
  device::PortLosses l;
  for (std::size_t i = 0; i < l.values.size(); i++)
    l.values[i] = read_number(port_folder + "/hw_counters/" + device::port_loss_names[i]);
  if (!l.of(PortLoss::rx_damaged))
    l.of(PortLoss::rx_damaged) = read_number(port_folder + "/counters/port_rcv_errors");
  if (!l.of(PortLoss::tx_discards))
    l.of(PortLoss::tx_discards) = read_number(port_folder + "/counters/port_xmit_discards");
  return l;
}

}  // namespace kilim::mlx5
