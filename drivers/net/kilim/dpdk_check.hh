// SPDX-License-Identifier: BSD-3-Clause
// Whether the DPDK that runs has the driver interface that this driver was compiled for. The driver
// asks before it makes its first port, since a port of another layout would overwrite what
// librte_ethdev keeps. Any thread.
#pragma once

#include <cstddef>
#include <string>

namespace kilim::net {

// Why a port cannot be made on the DPDK that calls itself `version` ("DPDK 24.11.3") and whose
// table of ports has `bytes` bytes (0: nothing tells them); empty if it can.
std::string why_not_on(const char* version, std::size_t bytes);

// Asks that of the DPDK in this process.
std::string why_not_here();

}  // namespace kilim::net
