// SPDX-License-Identifier: BSD-3-Clause
// Reads an adapter's capabilities: verbs attributes, and the firmware's by QUERY_HCA_CAP through
// DevX. Any thread; control path only.
#pragma once

#include <string>

#include <infiniband/verbs.h>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/device/caps.hh"

namespace kilim::mlx5 {

// What the adapter does not report keeps the default of device::Caps. The error of
// ibv_query_device(3).
Result<device::Caps> read_caps(ibv_context* context);
// The state of a port, numbered from 1, without what its interface tells (port_interface.hh). The
// error of ibv_query_port(3).
Result<device::PortInfo> read_port(ibv_context* context, uint8_t number);

// NUMA node of the adapter `name`, from the tree `sysfs` (/sys); -1: unknown.
int read_numa_node(const std::string& sysfs, const std::string& name);

// The GID index for connections: the first RoCE v2 entry, else 0.
uint8_t choose_gid(ibv_context* context, uint8_t port);

}  // namespace kilim::mlx5
