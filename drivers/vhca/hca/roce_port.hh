// SPDX-License-Identifier: BSD-3-Clause
// Where the engine hands over to the protocols of the wire and back: send queues whose peer is on
// the wire, RoCE frames of the ports, timers, answers that are owed. Adapter's lock held. The data
// calls never allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/hca/state.hh"

namespace kilim::vhca {

struct RoceLink;

// Control path.
// The longest payload, a power of two, that a wire of this MTU carries with all headers.
uint32_t roce_mtu(uint32_t wire_mtu) noexcept;
void roce_open(HcaState&);
// The queue has changed its state: its protocol begins, goes on or ends.
void roce_enter(HcaState&, Qp&, QpState from);
void roce_forget(HcaState&, Qp&) noexcept;
// Before the queue is destroyed. What it has taken from a shared queue goes back to the client.
void roce_part(HcaState&, Qp&) noexcept;
// Something of destroyed queues is still to be sent.
bool roce_owes(const HcaState&) noexcept;

// At most `budget` packets of a queue that has `rc`; what it did.
std::size_t roce_run(HcaState&, Qp&, std::size_t budget, bool (*run_here)(HcaState&, Qp&)) noexcept;
bool roce_may_send(const Qp&) noexcept;
// True: the frame was RoCE for this adapter.
bool roce_take(HcaState&, uint32_t port, std::span<const std::byte> frame) noexcept;
void roce_timers(HcaState&) noexcept;
// Queues that a full wire kept from sending are ready again when its time is over.
void roce_unblock(HcaState&) noexcept;
std::size_t roce_answer(HcaState&) noexcept;
uint64_t roce_deadline(const HcaState&) noexcept;

}  // namespace kilim::vhca
