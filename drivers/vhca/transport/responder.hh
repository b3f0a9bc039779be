// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", responder. What a queue pair does with a request that a queue of the
// same adapter makes by a call: every check in the order of the InfiniBand specification, the data,
// its own completion, its own error. Adapter's lock held. Never allocates.
#pragma once

#include "vhca/core/verdict.hh"
#include "vhca/transport/request.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::transport {

// A request as it arrives. `local`: the requester's memory, source or target.
struct Request {
  const wq::SendWqe& wqe;
  const RequestData& ask;
  tpt::SegmentList local;
};

Verdict respond(wq::EngineContext&, wq::Qp&, RequestKind, const Request&) noexcept;

}  // namespace kilim::vhca::transport
