// SPDX-License-Identifier: BSD-3-Clause
// Executes send WQEs. Adapter's lock held. Never allocates.
#include "vhca/hca/exec.hh"

#include "vhca/hca/eth.hh"
#include "vhca/hca/exec_plain.hh"
#include "vhca/hca/exec_steps.hh"
#include "vhca/hca/exec_weak.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/journal.hh"
#include "vhca/hca/roce_port.hh"
#include "vhca/hca/scheduler.hh"
#include "vhca/transport/datagram.hh"
#include "vhca/transport/rendezvous.hh"
#include "vhca/transport/requester.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca {

namespace {

using prm::Opcode;
using prm::Syndrome;

// A full wire is tried again soon.
constexpr uint64_t wire_retry_ns = 20'000;
// A page that was brought in may be taken away again before it is used: not for ever.
constexpr uint16_t most_stalls = 50'000;

Outcome exec_raw(HcaState& h, Qp& qp, const SendWqe& wqe, bool& wire_full) noexcept {
  switch (static_cast<Opcode>(wqe.opcode)) {
    case Opcode::nop:
      return Outcome::done();
    case Opcode::send:
    case Opcode::tso:
    case Opcode::enhanced_mpsw:
      break;
    default:
      // UMR among them: a raw packet queue has no reg_umr.
      return Outcome::failed(Syndrome::local_qp_op, "an opcode that the queue does not know");
  }
  EthSend sent = eth_exec_send(h, qp, wqe);
  wire_full = sent.retry;
  if (sent.syndrome != Syndrome::none) return Outcome::failed(sent.syndrome, "raw packet refused");
  return Outcome::done();
}

Outcome exec(HcaState& h, Qp& qp, const SendWqe& wqe, bool& wire_full) noexcept {
  if (!h.executing) [[unlikely]] {
    h.works.journal->unexecuted(qp.qpn, wqe.index);
    return Outcome::done();
  }
  switch (qp.type) {
    case QpType::raw_packet:
      return exec_raw(h, qp, wqe, wire_full);
    case QpType::ud:
      return exec_ud(h, qp, wqe, wire_full);
    default:
      return exec_rc(h.works, h.qps, qp, wqe);
  }
}

void wait_until(HcaState& h, Qp& qp, SqWait why, uint64_t ns) noexcept {
  if (qp.wait == SqWait::none) h.waiting.push_back(&qp);
  qp.wait = why;
  qp.retry_at_ns = h.works.now_ns + ns;
}

void begin_retrying(Qp& qp) noexcept {
  if (qp.retrying) return;
  qp.retrying = true;
  qp.rnr_left = qp.attr.rnr_retry;
  qp.retry_left = qp.attr.retry_cnt;
}

// The WQE stays where it is; the queue sleeps, unless it has been patient enough.
bool wait_for_peer(HcaState& h, Qp& qp, const Outcome& o) noexcept {
  bool rnr = o.kind == Outcome::Kind::rnr;
  begin_retrying(qp);
  if (rnr) {
    if (qp.rnr_left == 0) return false;
    if (qp.rnr_left != 7) qp.rnr_left--;
    wait_until(h, qp, SqWait::rnr, rnr_timer_ns(o.rnr_timer));
    return true;
  }
  // The first time an answer is missing costs a timeout too.
  if (qp.timeouts > qp.retry_left) return false;
  if (qp.attr.timeout != 0) qp.timeouts++;
  wait_until(h, qp, SqWait::timeout, timeout_ns(qp.attr.timeout));
  return true;
}

// The linter's word; null: none, or only a warning.
[[gnu::cold, gnu::noinline]] const char* lint_objection(HcaState& h, Qp& qp, const SendWqe& wqe,
                                                        Outcome& o) noexcept {
  const prm::lint::RuleRow* row = h.lint->executes(*qp.lint, wqe);
  if (row == nullptr) return nullptr;
  o = Outcome::failed(row->syndrome, row->sentence);
  return row->sentence;
}

void stop_waiting(Qp& qp) noexcept {
  qp.retrying = false;
  qp.timeouts = 0;
  qp.stalls = 0;
}

}  // namespace

bool waits(HcaState& h, Qp& qp, Outcome& o) noexcept {
  if (o.kind == Outcome::Kind::stall) {
    if (qp.stalls++ < most_stalls) {
      begin_retrying(qp);
      wait_until(h, qp, SqWait::page, page_stall_ns);
      return true;
    }
    o = Outcome::failed(Syndrome::local_prot, o.why);
  }
  bool again = o.kind == Outcome::Kind::rnr || o.kind == Outcome::Kind::no_answer;
  if (again && wait_for_peer(h, qp, o)) return true;
  stop_waiting(qp);
  return false;
}

namespace {

// One request of a rendezvous; false: the queue goes no further now.
bool run_rendezvous(HcaState& h, Qp& qp) noexcept {
  Outcome o = exec_rendezvous(h.works, h.qps, qp);
  if (waits(h, qp, o)) return false;
  if (o.ok())
    rendezvous_answered(h.works, qp);
  else
    fail_rendezvous(h.works, qp, o.syndrome, o.why);
  return qp.state == QpState::rts;
}

}  // namespace

Outcome try_wqe(HcaState& h, Qp& qp, const SendWqe& wqe, bool& wire_full) noexcept {
  if (!qp.retrying)
    h.works.journal->wqe(qp.qpn, wqe.index, wqe.opcode, static_cast<uint8_t>(wqe.ds));
  if (qp.lint != nullptr) [[unlikely]] {
    Outcome o;
    if (lint_objection(h, qp, wqe, o) != nullptr) return o;
  }
  return exec(h, qp, wqe, wire_full);
}

bool run_one(HcaState& h, Qp& qp) noexcept {
  SendWqe& wqe = h.scratch;
  Decode decoded = decode_send(qp, wqe);
  if (decoded == Decode::fault) {
    fatal_qp(h.works, qp, "the send ring is gone");
    return false;
  }
  Outcome o = Outcome::failed(Syndrome::local_qp_op, "malformed WQE");
  bool wire_full = false;
  if (decoded == Decode::ok) o = try_wqe(h, qp, wqe, wire_full);
  if (wire_full) {
    qp.retrying = true;
    wait_until(h, qp, SqWait::timeout, wire_retry_ns);
    return false;
  }
  if (waits(h, qp, o)) return false;
  if (o.kind != Outcome::Kind::done) {
    // What cannot be read belongs to no stream: all end.
    if (decoded != Decode::ok && qp.spec.failing_streams != 0) to_error(h.works, qp);
    fail_send(h.works, qp, wqe, o.syndrome, o.why);
    return qp.state == QpState::rts;
  }
  qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + wqe.wqebbs);
  if (wqe.signaled() &&
      !complete_send(h.works, qp, {wqe.opcode, wqe.index, o.bytes, o.in_entry, wqe.wants_event()}))
    fatal_qp(h.works, qp, "the CQ of a send queue is in error");
  if (qp.draining) stop_drained(h.works, qp);
  return qp.state == QpState::rts;
}

std::size_t run_send_queue(HcaState& h, Qp& qp, std::size_t budget) noexcept {
  std::size_t done = 0;
  if (qp.rc && qp.wait == SqWait::none) {
    done = roce_run(h, qp, budget, run_one);
    h.work_since_clock += done * general_work;
    note_drained(h, qp);
    return done;
  }
  // In SQD only the WQE that was under way is brought to its end.
  bool runs = qp.state == QpState::rts || (qp.state == QpState::sqd && qp.retrying);
  while (runs && done < budget && rendezvous_due(qp) && !due_to_die(h) &&
         h.work_since_clock < clock_work) {
    done++;
    h.work_since_clock += general_work;
    runs = run_rendezvous(h, qp);
  }
  if (qp.weak) [[unlikely]] {
    if (runs) done += run_weak(h, qp, budget - done);
    note_drained(h, qp);
    return done;
  }
  while (runs && done < budget && qp.sq.ci != qp.sq.pi && !due_to_die(h) &&
         h.work_since_clock < clock_work) {
    if (const std::size_t plain = run_plain(h, qp, budget - done); plain != 0) {
      done += plain;
      runs = qp.state == QpState::rts;
      continue;
    }
    done++;
    h.work_since_clock += general_work;
    runs = run_one(h, qp);
  }
  note_drained(h, qp);
  return done;
}

}  // namespace kilim::vhca
