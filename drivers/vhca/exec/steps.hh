// SPDX-License-Identifier: BSD-3-Clause
// Steps of the execution of send WQEs that both orders take (send_queue.cc, weak.cc). Adapter's
// lock held. Never allocates.
#pragma once

#include "vhca/exec/engine.hh"
#include "vhca/transport/outcome.hh"

namespace kilim::vhca {

// One try of a WQE that could be decoded: journal, linter, execution.
Outcome try_wqe(Engine&, Qp&, const SendWqe&, bool& wire_full) noexcept;

// Whether a request that was tried waits, for pages of its own memory or for the peer; patience may
// have run out.
bool waits(Engine&, Qp&, Outcome&) noexcept;

// The WQE at sq.ci, in its place. False: the queue goes no further now.
bool run_one(Engine&, Qp&) noexcept;

}  // namespace kilim::vhca
