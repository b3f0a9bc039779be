// SPDX-License-Identifier: BSD-3-Clause
// The kernel's network interfaces beside ports (wire/port_netdev.hh): their frames leave by the
// port's wire, their link is the port's, and so is their MTU. Owner: the adapter; its lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "vhca/hca/hca.hh"
#include "vhca/wire/port_netdev.hh"

namespace kilim::vhca::hca {

// The port has this interface from now on. Control path.
void use_netdev(Hca&, uint32_t port, std::shared_ptr<wire::PortNetdev>);

// Frames of the kernel go to the port's wire, at most `budget`; what changed at the interface
// changes at the port, and clients are told of its link. How many frames left. Never allocates.
std::size_t serve_netdev(Hca&, uint32_t port, std::size_t budget) noexcept;

}  // namespace kilim::vhca::hca
