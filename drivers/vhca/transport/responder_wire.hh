// SPDX-License-Identifier: BSD-3-Clause
// InfiniBand Architecture Specification: "Reliable Connection", "Unreliable Connection", responder.
// Executes requests in the order of their sequence numbers, remembers what may be asked for again,
// and sends what it owes. Adapter's lock held. Never allocates. Packets are untrusted.
#pragma once

#include "vhca/transport/roce_link.hh"

namespace kilim::vhca::transport {

void handle_request(RoceLink&, wq::Qp&, const RocePacket&) noexcept;
// A shared queue is gone: nothing may use what the queue pair has taken from it.
void forget_shared(wq::Qp&) noexcept;
// Sends answers and the acknowledgement that are owed. False: the wire is full, or there is more;
// `sent` packets went out.
bool send_owed(RoceLink&, wq::Qp&, std::size_t& sent) noexcept;

}  // namespace kilim::vhca::transport
