// SPDX-License-Identifier: BSD-3-Clause
// Tells observers of plain requests (plain.hh): the linter, which may object, and the journal,
// which writes lines. A fault that waits for its request observes too, since it counts them.
// Observed requests go the same way as others, but one at a time. Owner: the engine; adapter's lock
// held. Never allocates; a WQE is untrusted.
#pragma once

#include <cstdint>

#include "vhca/exec/engine.hh"

namespace kilim::vhca::exec {

inline bool is_observed(const Engine& e, const wq::Qp& qp) noexcept {
  return e.context.journal->on() || qp.watched != nullptr || awaits_fault(e);
}

// Reads the next WQE into e.scratch and asks the linter. False: the WQE cannot be read, the linter
// objects or a fault is due; the general way finds that out again and fails the request.
bool observe(Engine& e, wq::Qp& qp) noexcept;

// The request in e.scratch has moved its bytes, with keys that are made of so many pieces.
void tell_moved(Engine& e, const wq::Qp& qp, uint64_t pieces) noexcept;
// A SEND has moved its bytes, into a receive WQE with that much room.
void tell_sent(Engine& e, const wq::Qp& qp, const wq::Qp& peer, uint32_t room) noexcept;
// The frames in e.scratch have left.
void tell_frames(Engine& e, const wq::Qp& qp) noexcept;
// Its completion was written; `bytes` as in the entry.
void tell_completed(Engine& e, wq::Qp& qp, uint32_t bytes) noexcept;

}  // namespace kilim::vhca::exec
