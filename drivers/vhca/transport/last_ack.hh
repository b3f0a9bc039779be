// SPDX-License-Identifier: BSD-3-Clause
// Last acknowledgements of queues that were destroyed. Nobody is there to acknowledge a repeat any
// more, so the last one goes out several times: a peer that has lost it could only give up.
// Adapter's lock held. Never allocates.
#pragma once

#include "vhca/transport/roce_link.hh"

namespace kilim::vhca::transport {

// The queue is about to go.
void remember_last_ack(RoceLink&, const wq::Qp&) noexcept;
// One more of each that is still to be sent; how many went out.
std::size_t send_last_acks(RoceLink&) noexcept;

}  // namespace kilim::vhca::transport
