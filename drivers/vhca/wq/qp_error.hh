// SPDX-License-Identifier: BSD-3-Clause
// What happens to a queue pair that goes wrong: error CQE, state ERR, flush, async event. Adapter's
// lock held. Never allocates.
#pragma once

#include <cstdint>

#include "kilim/prm/syndrome.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"
#include "vhca/wq/works.hh"

namespace kilim::vhca {

// Async events, numbered as verbs does (enum ibv_event_type).
namespace event {
inline constexpr uint32_t cq_err = 0, qp_fatal = 1, qp_req_err = 2, qp_access_err = 3, comm_est = 4,
                          sq_drained = 5, device_fatal = 8, last_wqe_reached = 16;
}

// The send WQE fails: its error CQE, then the queue goes to ERR (its other WQEs are flushed by the
// next turns of the engine).
void fail_send(Works&, Qp&, const SendWqe&, prm::Syndrome) noexcept;
// A receive WQE fails: error CQE 14, queue to ERR; the WQE is consumed.
void fail_recv(Works&, Qp&, uint16_t wqe_index, prm::Syndrome) noexcept;
// Ring memory is gone, or its CQ is: QP_FATAL, ERR.
void fatal_qp(Works&, Qp&, const char* why) noexcept;
// State ERR without an event: a transition the client asked for, or the other end's failure.
void to_error(Works&, Qp&) noexcept;
// One turn of flushing: at most `budget` WQEs of either ring get wr_flush. How many.
std::size_t flush_some(Works&, Qp&, std::size_t budget) noexcept;

}  // namespace kilim::vhca
