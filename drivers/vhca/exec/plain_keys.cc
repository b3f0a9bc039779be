// SPDX-License-Identifier: BSD-3-Clause
// The straight way of what changes keys: UMR and LOCAL_INV. Adapter's lock held. Never allocates; a
// WQE is untrusted.
#include <cstring>

#include "kilim/prm/umr_seg.hh"
#include "vhca/exec/plain.hh"
#include "vhca/exec/umr.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/posted_nops.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::exec {

namespace {

using prm::Opcode;

// A list by pointer that cannot be read is the only thing that a WQE changes although it fails.
bool is_plain_umr(const wq::SendWqe& wqe) noexcept {
  prm::UmrCtrlSeg ctrl;
  if (wqe.body().size() < sizeof(ctrl)) return false;
  std::memcpy(&ctrl, wqe.body().data(), sizeof(ctrl));
  return (ctrl.flags & prm::umr::inline_list) != 0 || ctrl.klm_octowords.host() == 0;
}

using ChangeKeys = Verdict (*)(wq::EngineContext&, const wq::Qp&, const wq::SendWqe&) noexcept;

// One UMR or LOCAL_INV. Returns how many.
std::size_t run_key_change(Engine& e, wq::Qp& qp, Opcode opcode, ChangeKeys change) noexcept {
  wq::SendWqe& wqe = e.scratch;
  if (wq::decode_send(qp, wqe) != wq::Decode::ok || wqe.opcode != static_cast<uint8_t>(opcode))
    return 0;
  if (opcode == Opcode::umr && !is_plain_umr(wqe)) return 0;
  e.context.journal->wqe(qp.qpn, wqe.index, wqe.opcode, static_cast<uint8_t>(wqe.ds));
  e.work_since_clock += plain_work;
  // A refused change fails at once: no later state of the key would let it pass by waiting.
  if (const Verdict o = change(e.context, qp, wqe); !o.ok()) {
    wq::fail_send(e.context, qp, wqe, o);
    return 1;
  }
  qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + wqe.wqebbs);
  if (!wqe.signaled()) return 1;
  wq::take_posted_nops(e.context, qp);
  if (!wq::complete_send(e.context, qp, {wqe.opcode, wqe.index, 0, false, wqe.wants_event()}))
    wq::fatal_qp(e.context, qp, "the CQ of a send queue is in error");
  return 1;
}

}  // namespace

std::size_t run_plain_umr(Engine& e, wq::Qp& qp, std::size_t) noexcept {
  return run_key_change(e, qp, Opcode::umr, exec_umr);
}

std::size_t run_plain_local_inval(Engine& e, wq::Qp& qp, std::size_t) noexcept {
  return run_key_change(e, qp, Opcode::local_inval, exec_local_inval);
}

}  // namespace kilim::vhca::exec
