// SPDX-License-Identifier: BSD-3-Clause
// PRM: "MMO Work Request Operation". A copy from one range of the queue's protection domain to
// another, done by the send queue without a peer. Adapter's lock held. Never allocates.
#pragma once

#include "vhca/core/verdict.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::transport {

Verdict exec_dma_copy(wq::EngineContext&, const wq::Qp&, const wq::SendWqe&) noexcept;

}  // namespace kilim::vhca::transport
