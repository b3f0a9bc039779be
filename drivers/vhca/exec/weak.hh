// SPDX-License-Identifier: BSD-3-Clause
// Execution in a weak order (core/order.hh) between two queues of this adapter: what no fence holds
// in its place may happen late, as on a card. Completions stay in the ring's order. What is late
// happens at the latest when the engine's turn at this queue ends, so that nothing waits for ever.
// Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>

#include "vhca/exec/engine.hh"

namespace kilim::vhca::exec {

// At most `budget` WQEs of a queue in RTS, or what was under way of one in SQD; how many.
std::size_t run_weak(Engine&, wq::Qp&, std::size_t budget) noexcept;

}  // namespace kilim::vhca::exec
