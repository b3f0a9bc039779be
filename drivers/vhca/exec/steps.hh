// SPDX-License-Identifier: BSD-3-Clause
// Steps of the execution of send WQEs that both orders take (send_queue.cc, weak.cc). Adapter's
// lock held. Never allocates.
#pragma once

#include "vhca/core/verdict.hh"
#include "vhca/exec/engine.hh"
#include "vhca/transport/requester.hh"

namespace kilim::vhca::exec {

// One try of a WQE that could be decoded: journal, linter, execution.
Verdict try_wqe(Engine&, wq::Qp&, const wq::SendWqe&, transport::Answer&) noexcept;

// Whether a request that was tried waits: for pages of its own memory, for its peer, for the wire.
// Where patience has run out, the verdict is final.
bool waits(Engine&, wq::Qp&, Verdict&) noexcept;

// The WQE at sq.ci, in its place. False: the queue goes no further now.
bool run_one(Engine&, wq::Qp&) noexcept;

}  // namespace kilim::vhca::exec
