// SPDX-License-Identifier: BSD-3-Clause
// The network interface of a port as sysfs shows it below the PCI function, net/IFACE: a link to
// the machine's own folder of it, or files that say the same where that folder is not to be seen.
// Owner: whoever made the tree. Any thread, on one device at a time. Never makes or changes an
// interface.
#pragma once

#include <string>

#include "vhca/core/spec.hh"
#include "vhca/entry/config.hh"

namespace kilim::vhca::entry::interface_files {

// The name of the port's interface: the one beside it, else the one that the launcher made, else
// the one that its wire is; empty: it has none.
std::string name_of(const DeviceConfig&);

// Writes net/IFACE into the folder of the PCI function, if the port has an interface. False: errno
// says why not.
bool write(const std::string& function, const DeviceConfig&);

// A wire may give the port another address than its name and seed do: the file says it from now on.
void set_address(const DeviceConfig&, const Mac&) noexcept;

}  // namespace kilim::vhca::entry::interface_files
