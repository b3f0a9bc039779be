// SPDX-License-Identifier: BSD-3-Clause
// The kernel's network interface beside a port: which one it is, and what it tells of the port.
// Read from the tree `sysfs` (/sys, or the tree that replaces it). Control path, any thread; opens
// files and asks the firmware, so never in a burst.
#pragma once

#include <cstdint>
#include <string>

#include <infiniband/verbs.h>

#include "kilim/detail/device/caps.hh"

namespace kilim::mlx5 {

// The folder of the interface of a port of `device` (ibv_get_device_name()): below the PCI
// function, or, of a bond, among all interfaces. Empty: the port has none, or there are several and
// none of them says that it is this port's.
std::string interface_folder(const std::string& sysfs, const std::string& device, uint8_t port);

// MTU of that interface, without Ethernet's header; 0: it has none, or it does not tell.
uint32_t read_frame_mtu(const std::string& interface_folder);

// The port's address: its first GID has it in it, where there is RoCE; else its interface says it,
// or the context of its vport. All zero: none of them does.
device::MacAddress read_port_mac(ibv_context* context, uint8_t port,
                                 const std::string& interface_folder);

}  // namespace kilim::mlx5
