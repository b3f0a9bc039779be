// SPDX-License-Identifier: BSD-3-Clause
// Frames that come in: from the ports' wires to RoCE or to the raw packet queues. Adapter's lock
// held. Never allocates.
#pragma once

#include <cstddef>

#include "vhca/hca/state.hh"

namespace kilim::vhca {

// Takes at most `budget` frames from all ports. How many it took.
std::size_t poll_ports(HcaState&, std::size_t budget) noexcept;

}  // namespace kilim::vhca
