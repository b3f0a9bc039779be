// SPDX-License-Identifier: BSD-3-Clause
// Where the engine hands over to the protocols of the wire and back: RoCE frames of the ports,
// timers, answers that are owed. Adapter's lock held. The data
// calls never allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/transport/roce_link.hh"

namespace kilim::vhca::transport {

// Control path.
// The longest payload, a power of two, that a wire of this MTU carries with all headers.
uint32_t roce_mtu(uint32_t wire_mtu) noexcept;
// By port; null: nothing is plugged in.
void roce_open(RoceLink&, std::vector<wire::Wire*> wires);
// The queue has changed its state: its protocol begins, goes on or ends.
void roce_enter(RoceLink&, wq::Qp&, QpState from);
void roce_forget(RoceLink&, wq::Qp&) noexcept;
// Before the queue is destroyed. What it has taken from a shared queue goes back to the client.
void roce_part(RoceLink&, wq::Qp&) noexcept;
// Something of destroyed queues is still to be sent.
bool roce_owes(const RoceLink&) noexcept;

bool roce_may_send(const wq::Qp&) noexcept;
// Whether a frame is RoCE that queues of this adapter may be meant by, right or wrong.
bool roce_hears(const RoceLink&, uint32_t port, std::span<const std::byte> frame) noexcept;
// True: the frame was RoCE for this adapter.
bool roce_handle_frame(RoceLink&, uint32_t port, std::span<const std::byte> frame) noexcept;
void roce_timers(RoceLink&) noexcept;
// Begins a turn: frames wait until roce_flush(), so that they leave in rows. Queues that a full
// wire kept from sending are ready again when it has room, or may have. Not 0: something went on.
std::size_t roce_begin(RoceLink&) noexcept;
// What was sent leaves, and at the end of the turn what is sent later leaves at once.
void roce_flush(RoceLink&, bool ends) noexcept;
std::size_t roce_answer(RoceLink&) noexcept;
uint64_t roce_deadline(const RoceLink&) noexcept;

}  // namespace kilim::vhca::transport
