// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", requester. Executes one request of a connected queue pair (RC, XRC
// and DC initiators, UC) whose peer is a queue of the same adapter; what asks for retries is told
// apart from what fails. Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>
#include <span>

#include "vhca/core/object_table.hh"
#include "vhca/transport/outcome.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca {

// The queue at the other end; null: nothing there answers.
Qp* answering_peer(const ObjectTable<Qp>& qps, const Qp&) noexcept;

// SEND, WRITE, READ, atomics.
Outcome exec_request(EngineContext&, const ObjectTable<Qp>& qps, Qp&, const SendWqe&) noexcept;

// The answer of a READ or an atomic that was kept (EngineContext::keeps_answers) goes to the memory
// that its WQE names, as the keys are now.
Outcome write_answer(EngineContext&, Qp&, const SendWqe&,
                     std::span<const std::byte> answer) noexcept;

// Nanoseconds that a requester waits: for an answer (attribute `timeout`), after an RNR answer
// (responder's `min_rnr_timer`).
uint64_t timeout_ns(uint8_t timeout) noexcept;
uint64_t rnr_timer_ns(uint8_t timer) noexcept;

}  // namespace kilim::vhca
