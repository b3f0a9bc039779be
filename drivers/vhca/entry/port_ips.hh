// SPDX-License-Identifier: BSD-3-Clause
// Which IP addresses an adapter's port has: those that were named for it or on its wire, those of
// the network interface that is its wire, and the machine's own loopback where it has no wire.
// Asks the kernel of interfaces; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "vhca/core/port_ip.hh"
#include "vhca/entry/attach.hh"

namespace kilim::vhca::entry {

// No two are the same; at most as many as a port takes, the named ones first.
std::vector<PortIp> ips_of(const DeviceSpec& config);

// The k-th next one's, as its last byte says: for equal devices in a row.
std::string following_ip(const std::string& text, uint32_t k);

}  // namespace kilim::vhca::entry
