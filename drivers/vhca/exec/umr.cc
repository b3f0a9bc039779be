// SPDX-License-Identifier: BSD-3-Clause
// UMR, LOCAL_INV, SET_PSV. Adapter's lock held.
#include "vhca/exec/umr.hh"

#include <cstring>

#include "kilim/prm/bsf_seg.hh"
#include "vhca/core/journal.hh"
#include "vhca/tpt/umr_apply.hh"
#include "vhca/wq/failure_observer.hh"

namespace kilim::vhca::exec {

Verdict exec_umr(wq::EngineContext& context, const wq::Qp& qp, const wq::SendWqe& wqe) noexcept {
  tpt::UmrRequest request{be32::from_raw(wqe.imm_raw).host(), wqe.body(), qp.spec.pd,
                          qp.qpn.value()};
  tpt::UmrChange got;
  if (Verdict v = tpt::umr_apply(*context.keys, context.translator, *context.profile, request, got);
      !v.ok())
    return v;
  const bool freed = got.freed && got.octowords == 0;
  if (freed)
    context.journal->invalidate(got.new_key);
  else
    context.journal->umr(got.new_key, got.octowords, got.bytes, got.mask);
  wq::note_key_change(context, qp, wqe.index, got.new_key,
                      freed ? wq::KeyChange::invalidated : wq::KeyChange::filled);
  return Verdict::done();
}

Verdict exec_local_inval(wq::EngineContext& context, const wq::Qp& qp,
                         const wq::SendWqe& wqe) noexcept {
  uint32_t key = be32::from_raw(wqe.imm_raw).host();
  Verdict d =
      tpt::invalidate_key(*context.keys, key, qp.spec.pd, qp.qpn.value(), tpt::Invalidator::owner);
  if (!d.ok()) return d;
  context.journal->invalidate(key);
  wq::note_key_change(context, qp, wqe.index, key, wq::KeyChange::invalidated);
  return Verdict::done();
}

Verdict exec_set_psv(wq::EngineContext& context, const wq::Qp& qp,
                     const wq::SendWqe& wqe) noexcept {
  prm::SetPsvSeg seg;
  if (wqe.body().size() != sizeof(seg)) return malformed("SET_PSV has one segment");
  std::memcpy(&seg, wqe.body().data(), sizeof(seg));
  tpt::Psv* psv = context.keys->psvs().at(seg.psv.host() & 0xffffff);
  if (psv == nullptr || psv->pd != qp.spec.pd) return malformed("no such PSV in this domain");
  psv->value = seg.signature.host();
  return Verdict::done();
}

}  // namespace kilim::vhca::exec
