// SPDX-License-Identifier: BSD-3-Clause
// Send queues whose peer is on the wire: packets go out, and what the protocol leaves to the
// queue's own side is executed here. Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>

#include "vhca/exec/engine.hh"

namespace kilim::vhca::exec {

// Sends at most `budget` packets of a queue that has `rc`; returns how many steps it took.
std::size_t run_on_wire(Engine&, wq::Qp&, std::size_t budget) noexcept;

}  // namespace kilim::vhca::exec
