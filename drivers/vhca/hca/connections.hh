// SPDX-License-Identifier: BSD-3-Clause
// The connection managers of the adapter's ports. Adapter's lock held.
#pragma once

#include <cstdint>

#include "vhca/cm/agent.hh"
#include "vhca/hca/hca.hh"

namespace kilim::vhca {

// The agent of a port, numbered from 1, made at the first call; it lives as long as the adapter.
// ENODEV: no such port. EOPNOTSUPP: an InfiniBand port, whose management is another.
// The engine's turn runs it (hca/scheduler.hh): its timers, and the datagrams of queue pair 1.
Result<cm::Agent*> connection_agent(Hca&, uint32_t port);

}  // namespace kilim::vhca
