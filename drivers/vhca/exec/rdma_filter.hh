// SPDX-License-Identifier: BSD-3-Clause
// Requests between queue pairs of one adapter, where rules of RDMA's flow tables look at them: by
// the rules of what is sent, then by those of what is received, as packets of theirs would on a
// card. Answers are not asked: whoever hears a request answers it. Adapter's lock held. Never
// allocates.
#pragma once

#include "vhca/core/verdict.hh"
#include "vhca/ethernet/soft_steering.hh"
#include "vhca/exec/engine.hh"
#include "vhca/transport/requester.hh"

namespace kilim::vhca::exec {

inline bool filters_rdma(const Engine& e) noexcept {
  return e.eth.soft && e.eth.soft->rdma.any();
}

// exec_request(), exec_datagram(), exec_rendezvous() where rules may drop what they ask.
Verdict exec_filtered_request(Engine&, wq::Qp&, const wq::SendWqe&, transport::Answer&) noexcept;
Verdict exec_filtered_datagram(Engine&, wq::Qp&, const wq::SendWqe&) noexcept;
Verdict exec_filtered_rendezvous(Engine&, wq::Qp&) noexcept;

}  // namespace kilim::vhca::exec
