// SPDX-License-Identifier: BSD-3-Clause
// InfiniBand Architecture Specification: "Reliable Connection", responder. What it owes to the
// requester on the wire: answers of READs and atomics, which are kept to be given again,
// acknowledgements and refusals. Adapter's lock held. Never allocates. Packets are untrusted.
#pragma once

#include <cstdint>

#include "vhca/core/verdict.hh"
#include "vhca/transport/roce_link.hh"

namespace kilim::vhca::transport {

// A negative acknowledgement at the number that is expected; `kind` and `value` as in an AETH.
void owe_nak(RoceLink&, wq::Qp&, uint8_t kind, uint8_t value) noexcept;
// All up to `psn` has arrived.
void owe_ack(RoceLink&, wq::Qp&, uint32_t psn) noexcept;
// The requester's packet was not executed.
void answer_refusal(RoceLink&, wq::Qp&, const Verdict&) noexcept;

// The place of a READ's or an atomic's answer, the oldest one's.
wq::RcAnswer& new_answer(const wq::Qp&, uint32_t psn, uint32_t packets) noexcept;
// A packet that has been executed comes again: the answer got lost.
void handle_repeat(RoceLink&, wq::Qp&, const RocePacket&) noexcept;

}  // namespace kilim::vhca::transport
