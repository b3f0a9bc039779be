// SPDX-License-Identifier: BSD-3-Clause
// What happens to a queue pair that goes wrong: error CQE, state ERR or SQE, flush, async event.
// Adapter's lock held. Never allocates.
#pragma once

#include <cstdint>

#include "vhca/core/verdict.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::wq {

// Async events, numbered as verbs does (enum ibv_event_type).
namespace event {
inline constexpr uint32_t cq_err = 0, qp_fatal = 1, qp_req_err = 2, qp_access_err = 3, comm_est = 4,
                          sq_drained = 5, device_fatal = 8, port_active = 9, port_err = 10,
                          srq_limit_reached = 15, last_wqe_reached = 16, wq_fatal = 19;
}

// Tells the client's sink of this queue.
void raise(EngineContext&, Qp&, uint32_t event_type) noexcept;

// The send WQE fails: it is used up, its error CQE is written, the queue goes to ERR (its other
// WQEs are flushed by the next turns of the engine), unless it has streams of which more may fail.
// A queue of unreliable services or raw packets goes to SQE, where only its sends are flushed.
// What the verdict says goes to the journal.
void fail_send(EngineContext&, Qp&, const SendWqe&, Verdict) noexcept;
// The receive WQE fails: error CQE 14, queue to ERR; the WQE is used up.
void fail_recv(EngineContext&, Qp&, uint16_t wqe_index, Verdict) noexcept;
// The receive WQE fails alone: error CQE 14, and the queue goes on. False: its CQ is in error.
bool drop_recv(EngineContext&, Qp&, uint16_t wqe_index, Verdict) noexcept;
// As fail_recv() of one that has left its ring already.
void fail_refused_recv(EngineContext&, Qp&, uint16_t wqe_index) noexcept;
void fail_taken_recv(EngineContext&, Qp&, uint16_t wqe_index, Verdict) noexcept;
// The receive WQE of a message that broke off, where it was taken from a shared queue: nobody else
// gives it back to the client. False: its CQ is in error.
bool flush_held(EngineContext&, Qp&) noexcept;
// Ring memory is gone, or its CQ is: QP_FATAL once, ERR; nothing of it is executed or flushed.
void fatal_qp(EngineContext&, Qp&, const char* why) noexcept;
// State ERR: a transition the client asked for, or the other end's failure. The one event is that
// of a shared queue's user, behind the completions of what it had taken.
void to_error(EngineContext&, Qp&) noexcept;
// Messages that have matched a tag and will not come any more: each entry gets its completion.
void cancel_tags(EngineContext&, Qp&) noexcept;
// Says SQ_DRAINED where the client asked for it and nothing is under way.
void note_drained(EngineContext&, Qp&) noexcept;
// One turn of flushing: at most `budget` WQEs get wr_flush, in ERR of both rings. How many.
std::size_t flush_some(EngineContext&, Qp&, std::size_t budget) noexcept;

}  // namespace kilim::vhca::wq
