// SPDX-License-Identifier: BSD-3-Clause
// The weak order of a connection on the wire. Adapter's lock held. Never allocates.
#include "vhca/transport/weak_wire.hh"

#include "vhca/core/journal.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca {

namespace {

using State = TakenWqe::State;

TakenWqe& take(RoceLink& link, Qp& qp, State state) noexcept {
  const SendWqe& wqe = link.wqe;
  TakenWqe t;
  t.index = wqe.index;
  t.wqebbs = wqe.wqebbs;
  t.opcode = wqe.opcode;
  t.what = send_class(wqe.opcode);
  t.signaled = wqe.signaled();
  t.event = wqe.wants_event();
  t.state = state;
  link.context->journal->wqe(qp.qpn, wqe.index, wqe.opcode, static_cast<uint8_t>(wqe.ds));
  qp.rc->next_ci = static_cast<uint16_t>(qp.rc->next_ci + wqe.wqebbs);
  qp.retrying = true;  // something is under way
  return qp.weak->push(t);
}

void fail_taken(EngineContext& context, Qp& qp) noexcept {
  SendWqe wqe;
  const TakenWqe t = qp.weak->at(0);
  if (decode_send_at(qp, t.index, wqe) != Decode::ok)
    return fatal_qp(context, qp, "a WQE under way has changed");
  qp.rc->count = 0;
  qp.retrying = false;
  qp.weak->clear();
  fail_send(context, qp, wqe, t.verdict);
}

void complete_on_wire(EngineContext& context, Qp& qp) noexcept {
  WeakOrder& o = *qp.weak;
  complete_taken(context, qp);
  if (!o.empty() && o.at(0).state == State::failed) return fail_taken(context, qp);
  qp.retrying = qp.rc->count > 0 || !o.empty();
  if (qp.draining && !qp.retrying) stop_drained(context, qp);
}

// False: the queue is in error.
bool change_key(RoceLink& link, Qp& qp, TakenWqe& t) noexcept {
  SendWqe wqe;
  if (decode_send_at(qp, t.index, wqe) != Decode::ok) {
    fatal_qp(*link.context, qp, "a WQE under way has changed");
    return false;
  }
  const Verdict o = link.execute(link.engine, qp, wqe);
  t.state = o.ok() ? State::done : State::failed;
  t.verdict = o;
  return true;
}

}  // namespace

void change_keys(RoceLink& link, Qp& qp) noexcept {
  WeakOrder& o = *qp.weak;
  if (qp.state != QpState::rts && qp.state != QpState::sqd) return;
  // Nothing happens behind a WQE that has failed.
  for (uint32_t i = 0; i < o.count() && o.at(i).state != State::failed; i++) {
    TakenWqe& t = o.at(i);
    const bool late = t.what == SendClass::change && t.state == State::delayed;
    if (late && !change_key(link, qp, t)) return;
  }
  complete_on_wire(*link.context, qp);
}

bool delay_change(RoceLink& link, Qp& qp) noexcept {
  WeakOrder& o = *qp.weak;
  const FenceWaits fence = fence_waits(link.wqe.fm_ce_se);
  if (fence.answers && qp.rc->answers_open > 0) return false;
  if (fence.messages && qp.rc->count > 0) return false;
  if (fence.changes) change_keys(link, qp);
  if (qp.state != QpState::rts || o.has_failed()) return false;
  take(link, qp, State::delayed);
  if (!o.is_late(qp.type, SendClass::change)) change_keys(link, qp);
  return true;
}

void note_under_way(RoceLink& link, Qp& qp) noexcept {
  take(link, qp, State::under_way);
}

void note_refused(RoceLink& link, Qp& qp, Verdict verdict) noexcept {
  TakenWqe& t = take(link, qp, State::failed);
  t.verdict = verdict;
  change_keys(link, qp);
}

void finish_weakly(RoceLink& link, Qp& qp, const RcMessage& m, bool in_entry) noexcept {
  TakenWqe* t = qp.weak->under_way(m.sq_index);
  if (t == nullptr) return fatal_qp(*link.context, qp, "a WQE under way has changed");
  t->state = State::done;
  t->bytes = static_cast<uint32_t>(m.answered() ? m.bytes : 0);
  t->in_entry = in_entry;
  if (in_entry) t->data = link.context->entry_data;
  complete_on_wire(*link.context, qp);
}

void fail_weakly(RoceLink& link, Qp& qp, const RcMessage& m, Verdict verdict) noexcept {
  TakenWqe* t = qp.weak->under_way(m.sq_index);
  if (t == nullptr) return fatal_qp(*link.context, qp, "a WQE under way has changed");
  t->state = State::failed;
  t->verdict = verdict;
  change_keys(link, qp);
}

}  // namespace kilim::vhca
