// SPDX-License-Identifier: BSD-3-Clause
// The weak order of a connection on the wire. Adapter's lock held. Never allocates.
#include "vhca/transport/weak_wire.hh"

#include "vhca/core/journal.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca::transport {

namespace {

using State = wq::TakenWqe::State;

wq::TakenWqe& take(RoceLink& link, wq::Qp& qp, State state) noexcept {
  const wq::SendWqe& wqe = link.wqe;
  wq::TakenWqe t;
  t.index = wqe.index;
  t.wqebbs = wqe.wqebbs;
  t.opcode = wqe.opcode;
  t.what = wq::send_class(wqe.opcode);
  t.signaled = wqe.signaled();
  t.event = wqe.wants_event();
  t.state = state;
  link.context->journal->wqe(qp.qpn, wqe.index, wqe.opcode, static_cast<uint8_t>(wqe.ds));
  qp.rc->next_ci = static_cast<uint16_t>(qp.rc->next_ci + wqe.wqebbs);
  qp.retrying = true;  // something is under way
  return qp.weak->push(t);
}

void fail_taken(wq::EngineContext& context, wq::Qp& qp) noexcept {
  wq::SendWqe wqe;
  const wq::TakenWqe t = qp.weak->at(0);
  if (wq::decode_send_at(qp, t.index, wqe) != wq::Decode::ok)
    return wq::fatal_qp(context, qp, "a WQE under way has changed");
  qp.rc->count = 0;
  qp.retrying = false;
  qp.weak->clear();
  wq::fail_send(context, qp, wqe, t.verdict);
}

void complete_on_wire(wq::EngineContext& context, wq::Qp& qp) noexcept {
  wq::WeakOrder& o = *qp.weak;
  wq::complete_taken(context, qp);
  if (!o.empty() && o.at(0).state == State::failed) return fail_taken(context, qp);
  qp.retrying = qp.rc->count > 0 || !o.empty();
  if (qp.draining && !qp.retrying) wq::stop_drained(context, qp);
}

// False: the queue is in error.
bool change_key(RoceLink& link, wq::Qp& qp, wq::TakenWqe& t) noexcept {
  wq::SendWqe wqe;
  if (wq::decode_send_at(qp, t.index, wqe) != wq::Decode::ok) {
    wq::fatal_qp(*link.context, qp, "a WQE under way has changed");
    return false;
  }
  const Verdict o = link.execute(link.engine, qp, wqe);
  t.state = o.ok() ? State::done : State::failed;
  t.verdict = o;
  return true;
}

}  // namespace

void change_keys(RoceLink& link, wq::Qp& qp) noexcept {
  wq::WeakOrder& o = *qp.weak;
  if (qp.state != QpState::rts && qp.state != QpState::sqd) return;
  // Nothing happens behind a WQE that has failed.
  for (uint32_t i = 0; i < o.count() && o.at(i).state != State::failed; i++) {
    wq::TakenWqe& t = o.at(i);
    const bool late = t.what == wq::SendClass::change && t.state == State::delayed;
    if (late && !change_key(link, qp, t)) return;
  }
  complete_on_wire(*link.context, qp);
}

bool delay_change(RoceLink& link, wq::Qp& qp) noexcept {
  wq::WeakOrder& o = *qp.weak;
  const wq::FenceWaits fence = wq::fence_waits(link.wqe.fm_ce_se);
  if (fence.answers && qp.rc->answers_open > 0) return false;
  if (fence.messages && qp.rc->count > 0) return false;
  if (fence.changes) change_keys(link, qp);
  if (qp.state != QpState::rts || o.has_failed()) return false;
  take(link, qp, State::delayed);
  if (!o.is_late(qp.type, wq::SendClass::change)) change_keys(link, qp);
  return true;
}

void note_under_way(RoceLink& link, wq::Qp& qp) noexcept {
  take(link, qp, State::under_way);
}

void note_refused(RoceLink& link, wq::Qp& qp, Verdict verdict) noexcept {
  wq::TakenWqe& t = take(link, qp, State::failed);
  t.verdict = verdict;
  change_keys(link, qp);
}

void finish_weakly(RoceLink& link, wq::Qp& qp, const wq::RcMessage& m, bool in_entry) noexcept {
  wq::TakenWqe* t = qp.weak->under_way(m.sq_index);
  if (t == nullptr) return wq::fatal_qp(*link.context, qp, "a WQE under way has changed");
  t->state = State::done;
  t->bytes = static_cast<uint32_t>(m.answered() ? m.bytes : 0);
  t->in_entry = in_entry;
  if (in_entry) t->data = link.context->entry_data;
  complete_on_wire(*link.context, qp);
}

void fail_weakly(RoceLink& link, wq::Qp& qp, const wq::RcMessage& m, Verdict verdict) noexcept {
  wq::TakenWqe* t = qp.weak->under_way(m.sq_index);
  if (t == nullptr) return wq::fatal_qp(*link.context, qp, "a WQE under way has changed");
  t->state = State::failed;
  t->verdict = verdict;
  change_keys(link, qp);
}

}  // namespace kilim::vhca::transport
