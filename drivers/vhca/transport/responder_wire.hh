// SPDX-License-Identifier: BSD-3-Clause
// InfiniBand Architecture Specification: "Reliable Connection", responder. Executes requests in
// the order of their sequence numbers, remembers what may be asked for again, and sends what it
// owes. Adapter's lock held. Never allocates. Packets are untrusted.
#pragma once

#include "vhca/transport/roce_link.hh"

namespace kilim::vhca {

void take_request(RoceLink&, Qp&, const RocePacket&) noexcept;
// Sends answers and the acknowledgement that are owed; false: the wire is full, or there is more.
bool send_owed(RoceLink&, Qp&) noexcept;

}  // namespace kilim::vhca
