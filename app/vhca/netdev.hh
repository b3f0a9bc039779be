// SPDX-License-Identifier: BSD-3-Clause
// Network interfaces for the ports of virtual devices (--pci): drivers that find a port by its
// interface ask this one for its address, MTU and state. No frame of the port passes it. TAP
// interfaces of this process, gone with it. Main thread, before the command is started.
#pragma once

#include <string>
#include <vector>

#include "kilim/base/fd.hh"
#include "kilim/base/result.hh"
#include "vhca/core/spec.hh"

namespace kilim::app {

// Goes into a network namespace of its own, as a user without rights may, and keeps the right to
// change interfaces for the command. False: the kernel gives users none; nothing has changed.
bool enter_network_namespace();

// One interface that is up; its name is the kernel's choice. It lives as long as the descriptor.
struct Netdev {
  Fd tap;
  std::string name;
};
Result<Netdev> make_netdev(const vhca::Mac& mac);

}  // namespace kilim::app
