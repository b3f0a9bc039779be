// SPDX-License-Identifier: BSD-3-Clause
// Executes send WQEs of one queue pair: decode, hand to its transport, complete, retry or fail.
// Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>

#include "vhca/exec/engine.hh"

namespace kilim::vhca::exec {

// At most `budget` WQEs. How many it touched; stops where the queue waits or leaves RTS.
std::size_t run_send_queue(Engine&, wq::Qp&, std::size_t budget) noexcept;

}  // namespace kilim::vhca::exec
