// SPDX-License-Identifier: BSD-3-Clause
// Executes send WQEs. Adapter's lock held. Never allocates.
#include "vhca/exec/send_queue.hh"

#include "vhca/core/journal.hh"
#include "vhca/exec/on_wire.hh"
#include "vhca/exec/opcodes.hh"
#include "vhca/exec/plain.hh"
#include "vhca/exec/rdma_filter.hh"
#include "vhca/exec/steps.hh"
#include "vhca/exec/weak.hh"
#include "vhca/transport/rendezvous.hh"
#include "vhca/transport/requester.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/observer.hh"
#include "vhca/wq/posted_nops.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca::exec {

namespace {

using prm::Syndrome;

// A full wire is tried again soon.
constexpr uint64_t wire_retry_ns = 20'000;

Verdict exec(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer& answer) noexcept {
  if (!e.executing) [[unlikely]] {
    e.context.journal->unexecuted(qp.qpn, wqe.index);
    return Verdict::done();
  }
  if (qp.failed.has(wqe.stream)) return {Syndrome::wr_flush, "its stream failed"};
  const OpcodeRow* row = opcode_row(qp.type, wqe.opcode);
  if (row == nullptr)
    return {Syndrome::local_qp_op, hardware::bad_opcode, "an opcode that the queue does not know"};
  return row->execute(e, qp, wqe, answer);
}

void wait_until(Engine& e, wq::Qp& qp, wq::SqWait why, uint64_t ns) noexcept {
  if (qp.wait == wq::SqWait::none) e.waiting.push_back(&qp);
  qp.wait = why;
  qp.retry_at_ns = e.context.now_ns + ns;
}

void begin_retrying(wq::Qp& qp) noexcept {
  if (qp.retrying) return;
  qp.retrying = true;
  qp.rnr_left = qp.attr.rnr_retry;
  qp.retry_left = qp.attr.retry_cnt;
}

// The WQE stays where it is; the queue sleeps, unless it has been patient enough.
bool wait_for_peer(Engine& e, wq::Qp& qp, const Verdict& o) noexcept {
  bool rnr = o.again == Again::rnr;
  begin_retrying(qp);
  if (rnr) {
    e.context.counts.add(TransportCount::rnr_nak_retry_err);
    if (qp.rnr_left == 0) return false;
    if (qp.rnr_left != 7) qp.rnr_left--;
    wait_until(e, qp, wq::SqWait::rnr, transport::rnr_timer_ns(o.rnr_timer));
    return true;
  }
  // The first time an answer is missing costs a timeout too.
  if (qp.timeouts > qp.retry_left) return false;
  if (qp.timeouts != 0) e.context.counts.add(TransportCount::local_ack_timeout_err);
  if (qp.attr.timeout != 0) qp.timeouts++;
  wait_until(e, qp, wq::SqWait::timeout, transport::timeout_ns(qp.attr.timeout));
  return true;
}

// The observer's word; ok: none, or only a warning.
[[gnu::cold, gnu::noinline]] Verdict observer_objection(Engine& e, wq::Qp& qp,
                                                        const wq::SendWqe& wqe) noexcept {
  const prm::lint::RuleRow* row = e.context.observer->executes(qp, wqe);
  return row == nullptr ? Verdict{} : Verdict{row->syndrome, row->sentence};
}

void stop_waiting(wq::Qp& qp) noexcept {
  qp.retrying = false;
  qp.timeouts = 0;
  qp.stalls = 0;
}

}  // namespace

bool waits(Engine& e, wq::Qp& qp, Verdict& o) noexcept {
  switch (o.again) {
    case Again::never:
      break;
    case Again::wire:
      qp.retrying = true;
      wait_until(e, qp, wq::SqWait::timeout, wire_retry_ns);
      return true;
    case Again::page:
      if (qp.stalls++ < transport::most_stalls) {
        begin_retrying(qp);
        wait_until(e, qp, wq::SqWait::page, transport::page_stall_ns);
        return true;
      }
      o = transport::pages_do_not_stay;
      break;
    case Again::rnr:
    case Again::answer:
      if (wait_for_peer(e, qp, o)) return true;
      break;
  }
  stop_waiting(qp);
  return false;
}

namespace {

// One request of a rendezvous; false: the queue goes no further now.
bool run_rendezvous(Engine& e, wq::Qp& qp) noexcept {
  Verdict o = filters_rdma(e) ? exec_filtered_rendezvous(e, qp)
                              : transport::exec_rendezvous(e.context, e.qps, qp);
  if (waits(e, qp, o)) return false;
  if (o.ok())
    transport::rendezvous_answered(e.context, qp);
  else
    transport::fail_rendezvous(e.context, qp, o);
  return qp.state == QpState::rts;
}

}  // namespace

Verdict try_wqe(Engine& e, wq::Qp& qp, const wq::SendWqe& wqe, transport::Answer& answer) noexcept {
  if (!qp.retrying) {
    Journal& journal = *e.context.journal;
    journal.wqe(qp.qpn, wqe.index, wqe.opcode, static_cast<uint8_t>(wqe.ds));
    if (e.context.failing.strikes(journal.count(Journal::Kind::wqe))) [[unlikely]]
      return {Syndrome::local_qp_op, "it was to fail, as --fault says"};
  }
  if (qp.watched != nullptr) [[unlikely]] {
    if (Verdict o = observer_objection(e, qp, wqe); !o.ok()) return o;
  }
  return exec(e, qp, wqe, answer);
}

bool run_one(Engine& e, wq::Qp& qp) noexcept {
  wq::SendWqe& wqe = e.scratch;
  wq::Decode decoded = wq::decode_send(qp, wqe);
  if (decoded == wq::Decode::fault) {
    wq::fatal_qp(e.context, qp, "the send ring is gone");
    return false;
  }
  Verdict o = malformed("malformed WQE");
  transport::Answer answer;
  if (decoded == wq::Decode::ok) o = try_wqe(e, qp, wqe, answer);
  if (waits(e, qp, o)) return false;
  if (!o.ok()) {
    // What cannot be read belongs to no stream: all end.
    if (decoded != wq::Decode::ok && qp.spec.failing_streams != 0) wq::to_error(e.context, qp);
    wq::fail_send(e.context, qp, wqe, o);
    return qp.state == QpState::rts;
  }
  qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + wqe.wqebbs);
  if (wqe.signaled()) {
    const wq::SendCompletion told{wqe.opcode, wqe.index, answer.bytes, answer.in_entry,
                                  wqe.wants_event()};
    wq::take_posted_nops(e.context, qp);
    if (!wq::complete_send(e.context, qp, told))
      wq::fatal_qp(e.context, qp, "the CQ of a send queue is in error");
  }
  if (qp.draining) wq::stop_drained(e.context, qp);
  return qp.state == QpState::rts;
}

std::size_t run_send_queue(Engine& e, wq::Qp& qp, std::size_t budget) noexcept {
  std::size_t done = 0;
  if (qp.rc && qp.wait == wq::SqWait::none) {
    done = run_on_wire(e, qp, budget);
    e.work_since_clock += done * general_work;
    wq::note_drained(e.context, qp);
    return done;
  }
  // In SQD only the WQE that was under way is brought to its end.
  bool runs = qp.state == QpState::rts || (qp.state == QpState::sqd && qp.retrying);
  while (runs && done < budget && transport::rendezvous_due(qp) && !due_to_die(e) &&
         e.work_since_clock < clock_work) {
    done++;
    e.work_since_clock += general_work;
    runs = run_rendezvous(e, qp);
  }
  if (qp.weak) [[unlikely]] {
    if (runs) done += run_weak(e, qp, budget - done);
    wq::note_drained(e.context, qp);
    return done;
  }
  while (runs && done < budget && qp.sq.ci != qp.sq.pi && !due_to_die(e) &&
         e.work_since_clock < clock_work) {
    if (const std::size_t plain = run_plain(e, qp, budget - done); plain != 0) {
      done += plain;
      runs = qp.state == QpState::rts;
      continue;
    }
    done++;
    e.work_since_clock += general_work;
    runs = run_one(e, qp);
  }
  wq::note_drained(e.context, qp);
  return done;
}

}  // namespace kilim::vhca::exec
