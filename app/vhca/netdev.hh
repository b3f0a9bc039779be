// SPDX-License-Identifier: BSD-3-Clause
// Network interfaces for the ports of virtual devices (--pci): drivers that find a port by its
// interface ask this one for its address, MTU and state, programs for its IP addresses. No frame of
// the port passes it. TAP interfaces of this process, gone with it. Main thread, before the command
// is started.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kilim/detail/base/fd.hh"
#include "kilim/result.hh"
#include "vhca/core/port_ip.hh"
#include "vhca/core/spec.hh"

namespace kilim::app {

// Goes into a network namespace of its own, as a user without rights may, and keeps the right to
// change interfaces for the command. False: the kernel gives users none; nothing has changed.
bool enter_network_namespace();

// One interface that is up, with these IP addresses; its name is the kernel's choice. It lives as
// long as the descriptor.
struct Netdev {
  Fd tap;
  std::string name;
};
Result<Netdev> make_netdev(const vhca::Mac& mac, std::span<const std::string> ips);

// The interface stays without us, and its other end is free for the process that opens the device;
// remove_netdev() ends it. The errno of the kernel.
Status keep_netdev(Netdev& netdev);
void remove_netdev(const std::string& name) noexcept;

}  // namespace kilim::app
