// SPDX-License-Identifier: BSD-3-Clause
// net::native() is Kilim's port behind a handle of rte_pmd_kilim.h, and so behind an ethdev: a DPDK
// program that runs its queues by rte_ethdev.h may use rules, spreading and statistics of the port.
//
// Threads: any thread; what may be called on the port, and by whom, says port.hh.
//
// Errors: none; the handle is not NULL.
//
// Example:
//   uint64_t missed(uint16_t port_id) {
//     kilim_port* handle = rte_pmd_kilim_port_of(port_id);
//     return handle == nullptr ? 0 : kilim::net::native(handle).missed();
//   }
#pragma once

#include "kilim/rte_pmd_kilim.h"
#include "net/kilim/native.hh"
