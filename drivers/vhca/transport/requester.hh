// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", requester. Executes one request of a connected queue pair (RC, XRC
// and DC initiators, UC) whose peer is a queue of the same adapter; what asks for retries is told
// apart from what fails. Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>
#include <span>

#include "vhca/core/object_table.hh"
#include "vhca/core/verdict.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::transport {

// How long a queue waits whose own memory met a page fault.
inline constexpr uint64_t page_stall_ns = 20'000;
// How often it waits for one WQE before that fails: a page may be taken away again before it is
// used, or be one that the fault handler never finds (tpt/fault_walk.hh).
inline constexpr uint16_t most_stalls = 50'000;
inline constexpr Verdict pages_do_not_stay{prm::Syndrome::local_prot, "pages do not stay"};

// What came back for a READ or an atomic that is done.
struct Answer {
  uint32_t bytes = 0;     // for its completion
  bool in_entry = false;  // it waits in EngineContext::entry_data
};

// The queue at the other end; null: nothing there answers.
wq::Qp* answering_peer(const ObjectTable<wq::Qp>& qps, const wq::Qp&) noexcept;

// SEND, WRITE, READ, atomics.
Verdict exec_request(wq::EngineContext&, const ObjectTable<wq::Qp>& qps, wq::Qp&,
                     const wq::SendWqe&, Answer&) noexcept;

// The answer of a READ or an atomic that was kept (EngineContext::keeps_answers) goes to the memory
// that its WQE names, as the keys are now.
Verdict write_answer(wq::EngineContext&, wq::Qp&, const wq::SendWqe&,
                     std::span<const std::byte> answer) noexcept;

// Nanoseconds that a requester waits: for an answer (attribute `timeout`), after an RNR answer
// (responder's `min_rnr_timer`).
uint64_t timeout_ns(uint8_t timeout) noexcept;
uint64_t rnr_timer_ns(uint8_t timer) noexcept;

}  // namespace kilim::vhca::transport
