// SPDX-License-Identifier: BSD-3-Clause
// InfiniBand Architecture Specification: "Reliable Connection", what a requester does with
// acknowledgements and answers. Adapter's lock held. Never allocates. Packets are untrusted.
#pragma once

#include "vhca/transport/roce_link.hh"

namespace kilim::vhca::transport {

// The oldest message is done.
void complete_oldest(RoceLink&, wq::Qp&, bool in_entry = false) noexcept;
void handle_response(RoceLink&, wq::Qp&, const RocePacket&) noexcept;

}  // namespace kilim::vhca::transport
