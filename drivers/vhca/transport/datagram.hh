// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Unreliable Datagram". Executes one send WQE of a datagram queue pair: to a queue of the
// same adapter or of a neighbour, or to all that joined a multicast group. Takes what comes from
// the wire. Adapter's lock held. Never allocates. Packets are untrusted.
#pragma once

#include "vhca/core/verdict.hh"
#include "vhca/transport/roce_link.hh"

namespace kilim::vhca {

// What nobody takes is lost without a word: the sender's completion says that it was sent.
Verdict exec_datagram(RoceLink&, Qp&, const SendWqe&) noexcept;

// A datagram from the wire of a port; false: no queue has that number, or nobody is in that group.
bool handle_datagram(RoceLink&, uint32_t port, const RocePacket&) noexcept;

}  // namespace kilim::vhca
