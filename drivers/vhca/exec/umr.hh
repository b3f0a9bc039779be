// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Control Segment", "LOCAL_INVAL", "SET_PSV". What a send queue changes of its domain's
// keys by itself. One that fails has changed nothing, unless its list was by pointer. Adapter's
// lock held. Never allocates; a WQE is untrusted.
#pragma once

#include "vhca/core/verdict.hh"
#include "vhca/wq/engine_context.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::exec {

Verdict exec_umr(wq::EngineContext&, const wq::Qp&, const wq::SendWqe&) noexcept;
Verdict exec_local_inval(wq::EngineContext&, const wq::Qp&, const wq::SendWqe&) noexcept;
Verdict exec_set_psv(wq::EngineContext&, const wq::Qp&, const wq::SendWqe&) noexcept;

}  // namespace kilim::vhca::exec
