// SPDX-License-Identifier: BSD-3-Clause
// The weak order in loopback. Three kinds of WQEs pass each other, none passes one of its own kind:
// a change of a key is late by happening behind messages that follow; an answer by being written
// behind all that follows; a message by reading its memory behind changes that follow, as one that
// is sent again does. Messages reach the peer in their order: what is lost is sent again with all
// behind it. Adapter's lock held. Never allocates; a WQE is untrusted.
#include "vhca/exec/weak.hh"

#include <algorithm>
#include <initializer_list>

#include "vhca/exec/steps.hh"
#include "vhca/transport/request.hh"
#include "vhca/transport/requester.hh"
#include "vhca/wq/in_entry.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca::exec {

namespace {

using State = wq::TakenWqe::State;
using prm::Syndrome;

bool is_live(const wq::Qp& qp) noexcept {
  return qp.state == QpState::rts || qp.state == QpState::sqd;
}

// The answer as it came; it goes to memory, or to the completion.
void keep_answer(const wq::EngineContext& context, wq::TakenWqe& t,
                 const transport::Answer& answer) noexcept {
  t.bytes = answer.bytes;
  if (answer.in_entry) t.data = context.entry_data;
}

void note_outcome(Engine& e, wq::TakenWqe& t, Verdict o, const transport::Answer& answer) noexcept {
  t.state = o.ok() ? State::done : State::failed;
  t.verdict = o;
  if (t.held) return;
  keep_answer(e.context, t, answer);
  t.in_entry = answer.in_entry;
}

// Carries out what is delayed. False: the queue goes no further now.
bool carry_out(Engine& e, wq::Qp& qp, wq::TakenWqe& t) noexcept {
  wq::SendWqe& wqe = e.scratch;
  const wq::Decode decoded = wq::decode_send_at(qp, t.index, wqe);
  if (decoded == wq::Decode::fault) {
    wq::fatal_qp(e.context, qp, "the send ring is gone");
    return false;
  }
  Verdict o = malformed("malformed WQE");
  transport::Answer answer;
  qp.retrying = t.tried;
  t.tried = true;
  if (decoded == wq::Decode::ok)
    o = t.held ? transport::write_answer(e.context, qp, wqe, t.data) : try_wqe(e, qp, wqe, answer);
  if (waits(e, qp, o)) return false;
  note_outcome(e, t, o, answer);
  return is_live(qp);
}

// The request goes out in its place, its short answer is kept.
void ask_only(Engine& e, wq::Qp& qp, wq::TakenWqe& t) noexcept {
  e.context.keeps_answers = true;
  transport::Answer answer;
  t.tried = true;
  Verdict o = try_wqe(e, qp, e.scratch, answer);
  e.context.keeps_answers = false;
  if (waits(e, qp, o)) return;
  if (!o.ok() || wq::answered_in_entry(qp, t.signaled, answer.bytes))
    return note_outcome(e, t, o, answer);
  keep_answer(e.context, t, answer);
  t.held = true;
}

// The oldest one has failed: its completion says so.
void fail_oldest_taken(Engine& e, wq::Qp& qp) noexcept {
  wq::WeakOrder& o = *qp.weak;
  wq::SendWqe& wqe = e.scratch;
  const wq::TakenWqe& t = o.at(0);
  // What cannot be read belongs to no stream: all end.
  if (wq::decode_send_at(qp, t.index, wqe) != wq::Decode::ok && qp.spec.failing_streams != 0)
    wq::to_error(e.context, qp);
  wqe.wqebbs = t.wqebbs;
  o.pop();
  wq::fail_send(e.context, qp, wqe, t.verdict);
}

// Completes in the ring's order. A failed one ends the queue as soon as all before it are done:
// those that are delayed are carried out for it. False: the queue goes no further now.
bool complete_in_order(Engine& e, wq::Qp& qp) noexcept {
  wq::WeakOrder& o = *qp.weak;
  for (;;) {
    wq::complete_taken(e.context, qp);
    if (o.empty()) return is_live(qp);
    wq::TakenWqe& oldest = o.at(0);
    if (oldest.state == State::failed) {
      // A queue that is its own peer is flushed up to the one that failed, behind which all is.
      const bool flushed = oldest.verdict.syndrome == Syndrome::wr_flush;
      fail_oldest_taken(e, qp);
      if (is_live(qp) || (flushed && o.has_failed())) continue;
      return false;  // what stands behind it is flushed, whatever became of it
    }
    if (!o.has_failed()) return is_live(qp);
    // A queue that is its own peer has failed as responder already.
    const bool needs_peer = oldest.what != wq::SendClass::change && !oldest.held;
    if (needs_peer && !is_live(qp)) {
      oldest.state = State::failed;
      oldest.verdict.syndrome = Syndrome::wr_flush;
      continue;
    }
    carry_out(e, qp, oldest);
    if (qp.wait != wq::SqWait::none || qp.broken) return false;
  }
}

// What is delayed of one kind. False: the queue goes no further now.
bool catch_up_one_kind(Engine& e, wq::Qp& qp, wq::SendClass what) noexcept {
  while (wq::TakenWqe* t = qp.weak->delayed(what)) {
    if (due_to_die(e)) return false;
    const bool goes_on = carry_out(e, qp, *t);
    if (qp.wait != wq::SqWait::none || qp.broken) return false;
    const bool ends = !goes_on || t->state == State::failed;
    if (ends && !complete_in_order(e, qp)) return false;
  }
  return complete_in_order(e, qp);
}

// An answer says that the messages before its request have arrived.
bool catch_up(Engine& e, wq::Qp& qp, wq::SendClass what) noexcept {
  const bool answers = what == wq::SendClass::answer && qp.weak->delayed(what) != nullptr;
  if (answers && !catch_up_one_kind(e, qp, wq::SendClass::message)) return false;
  return catch_up_one_kind(e, qp, what);
}

// All of it. Answers come last, the others in any order: what has to be before them was waited for.
bool catch_up_all(Engine& e, wq::Qp& qp) noexcept {
  const bool changes_first = qp.weak->flip();
  const wq::SendClass first = changes_first ? wq::SendClass::change : wq::SendClass::message;
  const wq::SendClass second = changes_first ? wq::SendClass::message : wq::SendClass::change;
  for (const wq::SendClass what : {first, second, wq::SendClass::answer}) {
    if (!catch_up(e, qp, what)) return false;
  }
  return true;
}

// What the fence of the WQE in hand waits for. False: the queue goes no further now.
// mlx5dv_qp_cancel_posted_send_wrs(3): a queue that a wrong signature stops does so before the next
// WQE with IBV_SEND_FENCE.
bool wait_for_fenced(Engine& e, wq::Qp& qp, uint8_t fm_ce_se) noexcept {
  const wq::FenceWaits fence = wq::fence_waits(fm_ce_se);
  const bool messages = fence.messages || (fence.answers && qp.drains_on_sign_error);
  if (fence.changes && !catch_up(e, qp, wq::SendClass::change)) return false;
  if (messages && !catch_up(e, qp, wq::SendClass::message)) return false;
  if (fence.answers && !catch_up(e, qp, wq::SendClass::answer)) return false;
  return !qp.weak->full() || catch_up_all(e, qp);
}

// An answer more than the queue may have under way waits for the others.
bool wait_for_depth(Engine& e, wq::Qp& qp, wq::SendClass what) noexcept {
  const uint32_t most = std::max<uint32_t>(qp.attr.max_rd_atomic, 1);
  if (what != wq::SendClass::answer || qp.weak->count_delayed(what) < most) return true;
  return catch_up(e, qp, what);
}

// Whether the answer fits into what is kept of a WQE.
bool has_short_answer(const wq::Qp& qp, const wq::SendWqe& wqe) noexcept {
  const transport::RequestRow* row = transport::request_row(qp.type, wqe.opcode);
  transport::RequestData ask;
  return row != nullptr && transport::read_request(qp, *row, wqe, ask).ok() &&
         ask.bytes <= sizeof(wq::TakenWqe::data);
}

// One that is taken now. False: the queue goes no further now.
bool begin_taken(Engine& e, wq::Qp& qp, wq::TakenWqe& t) noexcept {
  const bool late = qp.weak->is_late(qp.type, t.what);
  if (late && t.what != wq::SendClass::answer) return true;
  if (!late) return catch_up(e, qp, t.what);
  if (!has_short_answer(qp, e.scratch)) return true;  // all of it is late, as one asked for again
  // Requests reach the peer in their order.
  if (!catch_up(e, qp, wq::SendClass::message)) return false;
  if (wq::decode_send_at(qp, t.index, e.scratch) != wq::Decode::ok) return true;
  ask_only(e, qp, t);
  return qp.wait == wq::SqWait::none && complete_in_order(e, qp);
}

// Takes the next WQE. False: the queue goes no further now.
bool begin_next(Engine& e, wq::Qp& qp) noexcept {
  wq::WeakOrder& o = *qp.weak;
  wq::SendWqe& wqe = e.scratch;
  const wq::Decode decoded = wq::decode_send_at(qp, o.next_ci, wqe);
  const wq::SendClass what =
      decoded == wq::Decode::ok ? wq::send_class(wqe.opcode) : wq::SendClass::other;
  if (what == wq::SendClass::other) {
    if (!catch_up_all(e, qp)) return false;
    if (qp.draining) return true;  // what was late met a wrong signature: run_weak() stops here
    const bool goes_on = run_one(e, qp);
    o.next_ci = qp.sq.ci;
    return goes_on;
  }
  wq::TakenWqe t;
  t.index = wqe.index;
  t.wqebbs = wqe.wqebbs;
  t.opcode = wqe.opcode;
  t.what = what;
  t.signaled = wqe.signaled();
  t.event = wqe.wants_event();
  if (!wait_for_fenced(e, qp, wqe.fm_ce_se) || !wait_for_depth(e, qp, what)) return false;
  if (qp.draining) return true;
  if (o.next_ci != t.index) return true;  // a NOP: it has been read
  if (wq::decode_send_at(qp, t.index, wqe) != wq::Decode::ok) return true;  // looked at again
  wq::TakenWqe& taken = o.push(t);
  o.next_ci = static_cast<uint16_t>(t.index + t.wqebbs);
  return begin_taken(e, qp, taken);
}

}  // namespace

std::size_t run_weak(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  wq::WeakOrder& o = *qp.weak;
  if (o.empty()) o.next_ci = qp.sq.ci;
  std::size_t done = o.count();
  // What was tried before comes first.
  bool runs = o.empty() || (complete_in_order(e, qp) && catch_up_all(e, qp));
  while (runs && qp.state == QpState::rts && !qp.draining && done < budget &&
         o.next_ci != qp.sq.pi && !due_to_die(e) && e.work_since_clock < clock_work) {
    done++;
    e.work_since_clock += general_work;
    runs = begin_next(e, qp);
  }
  if (runs && is_live(qp)) catch_up_all(e, qp);
  if (qp.draining && o.empty()) wq::stop_drained(e.context, qp);
  return done;
}

}  // namespace kilim::vhca::exec
