// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Signature Error CQE". Tells of the wrong signatures that transfers have found: an entry
// each, before the completion of the request; and
// stops a queue that wants to be stopped by them. Adapter's lock held. Never allocates.
#pragma once

#include "vhca/tpt/key_table.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"

namespace kilim::vhca::wq {

// Which end of the transfer a queue's own keys are at.
enum class SignEnd : uint8_t { source, target, both };
void write_sign_errors(EngineContext&, Qp&, Cq&, SignEnd) noexcept;

// Of what the queue's own requests have moved, behind all others: where it was asked for, the queue
// stops behind the request.
inline void report_sent_errors(EngineContext& context, Qp& qp) noexcept {
  if (context.keys->sign_errors().count == 0) [[likely]]
    return;
  qp.draining = qp.drains_on_sign_error;
  write_sign_errors(context, qp, *qp.send_cq, SignEnd::both);
}
// Of what a peer's request has moved.
inline void report_answered_errors(EngineContext& context, Qp& qp, SignEnd end) noexcept {
  if (context.keys->sign_errors().count == 0) [[likely]]
    return;
  write_sign_errors(context, qp, qp.recv_cq != nullptr ? *qp.recv_cq : *qp.send_cq, end);
}

// The queue has come to the place where it stops: SQD, and the client hears of it.
void stop_drained(EngineContext&, Qp&) noexcept;

}  // namespace kilim::vhca::wq
