// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", requester. Executes one send WQE of a connected queue pair (RC, XRC
// initiator, UC) whose peer is a queue of the same adapter; what asks for retries is told apart
// from what fails. Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>
#include <span>

#include "vhca/hca/object_table.hh"
#include "vhca/transport/outcome.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"
#include "vhca/wq/works.hh"

namespace kilim::vhca {

// The queue at the other end; null: nothing there answers.
Qp* answering_peer(const ObjectTable<Qp>& qps, const Qp&) noexcept;

// Of them a UMR, a LOCAL_INV or a SET_PSV. One that fails has changed nothing, unless its list was
// by pointer.
Outcome exec_key_change(Works&, const Qp&, const SendWqe&) noexcept;

Outcome exec_rc(Works&, const ObjectTable<Qp>& qps, Qp&, const SendWqe&) noexcept;

// The answer of a READ or an atomic that was kept (Works::keeps_answers) goes to the memory that
// its WQE names, as the keys are now.
Outcome write_answer(Works&, Qp&, const SendWqe&, std::span<const std::byte> answer) noexcept;

// Nanoseconds that a requester waits: for an answer (attribute `timeout`), after an RNR answer
// (responder's `min_rnr_timer`).
uint64_t timeout_ns(uint8_t timeout) noexcept;
uint64_t rnr_timer_ns(uint8_t timer) noexcept;

}  // namespace kilim::vhca
