// SPDX-License-Identifier: BSD-3-Clause
// The straight way of raw packet queues onto a wire that is a ring in memory: SENDs of one pointer
// and multi-packet WQEs, gathered into the ring itself. As plain.hh: what is not plain, or goes
// wrong, is left as it is for the general way. Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>

#include "vhca/exec/engine.hh"

namespace kilim::vhca::exec {

// At most `budget` WQEs of the queue; how many it executed. 0: the next one is for the general way.
std::size_t run_plain_frames(Engine&, wq::Qp&, std::size_t budget) noexcept;

}  // namespace kilim::vhca::exec
