// SPDX-License-Identifier: BSD-3-Clause
// What those who observe an adapter are told of plain requests (plain.hh): the linter, which may
// object, and the journal, which writes lines; and faults that are to strike a certain request.
// Observed requests go the same way as others, but one at a time. Adapter's lock
// held. Never allocates; a WQE is untrusted.
#pragma once

#include <cstdint>

#include "vhca/exec/engine.hh"

namespace kilim::vhca::exec {

inline bool is_observed(const Engine& e, const wq::Qp& qp) noexcept {
  return e.context.journal->on() || qp.watched != nullptr || awaits_fault(e);
}

// Reads the next WQE into e.scratch. False: nobody is told of it here, since it cannot be read, the
// linter objects or a fault is due: the general way finds that out again and does what is to be
// done.
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
