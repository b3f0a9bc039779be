// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", responder. What a queue pair does with a request that reaches it:
// every check in the order of the InfiniBand specification, the data, its own completion, its own
// error. Adapter's lock held. Never allocates.
#pragma once

#include <cstdint>

#include "vhca/transport/outcome.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"
#include "vhca/wq/works.hh"

namespace kilim::vhca {

// A request as it arrives. `local`: the requester's memory, source or target.
struct Request {
  const SendWqe& wqe;
  uint32_t from_qpn;
  SegmentList local;
  uint64_t bytes = 0;
  uint64_t remote_addr = 0;
  uint32_t rkey = 0;
  uint64_t swap_add = 0;  // host order
  uint64_t compare = 0;
};

Outcome respond_send(Works&, Qp&, const Request&) noexcept;
Outcome respond_write(Works&, Qp&, const Request&) noexcept;
Outcome respond_read(Works&, Qp&, const Request&) noexcept;
Outcome respond_atomic(Works&, Qp&, const Request&) noexcept;

}  // namespace kilim::vhca
