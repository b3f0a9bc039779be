// SPDX-License-Identifier: BSD-3-Clause
// Lines and counts as the general way writes them (rx.cc). Adapter's lock held. Never allocates.
#include "vhca/ethernet/observed_frames.hh"

#include "kilim/prm/cqe.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca::ethernet {

bool Observed::look(const wq::Qp& qp) const noexcept {
  return wq::look_at_recv(*eth.context, qp, eth.recv) == wq::RecvTake::ok;
}

void Observed::tell(const wq::Qp& qp, std::size_t bytes) const noexcept {
  Journal& journal = *eth.context->journal;
  const wq::RecvWqe& wqe = eth.recv;
  const auto count = static_cast<uint32_t>(bytes);
  constexpr auto opcode = static_cast<uint8_t>(prm::CqeOpcode::resp_send);
  journal.recv(qp.qpn, wqe.index, static_cast<uint32_t>(wqe.room));
  journal.translated(wqe.count > 0 ? wqe.segments[0].key : 0, 1, bytes);
  journal.cqe(qp.recv_cq->cqn, qp.qpn, opcode, wqe.index, count);
  journal.frame_in(port, count);
}

}  // namespace kilim::vhca::ethernet
