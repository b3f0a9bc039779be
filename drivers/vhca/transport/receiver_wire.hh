// SPDX-License-Identifier: BSD-3-Clause
// InfiniBand Architecture Specification: "Reliable Connection", "Unreliable Connection", SEND at
// the responder: packets into receive WQEs, or into the buffers of tags. Adapter's lock held. Never
// allocates. Packets are untrusted.
#pragma once

#include "vhca/core/verdict.hh"
#include "vhca/transport/roce_link.hh"

namespace kilim::vhca::transport {

// One packet of a SEND, in its order.
Verdict receive_part(RoceLink&, wq::Qp&, const RocePacket&) noexcept;
// The receive WQE in link.recv is completed. `in_entry`: the data waits in
// EngineContext::entry_data.
Verdict finish_message(RoceLink&, wq::Qp&, const RocePacket&, bool in_entry = false) noexcept;

}  // namespace kilim::vhca::transport
