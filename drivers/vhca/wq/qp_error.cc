// SPDX-License-Identifier: BSD-3-Clause
// What happens to a queue pair that goes wrong. Adapter's lock held. Never allocates.
#include "vhca/wq/qp_error.hh"

#include "kilim/prm/lint_rules.hh"
#include "vhca/core/journal.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/failure_observer.hh"
#include "vhca/wq/recv.hh"
#include "vhca/wq/vendor_bytes.hh"

namespace kilim::vhca::wq {

namespace {

constexpr Verdict flushed_recv{prm::Syndrome::wr_flush, "flushed"};

// Whether the queue goes on although a WQE of it fails: streams fail one by one.
bool goes_on(Qp& qp, const SendWqe& wqe) noexcept {
  if (qp.state == QpState::err || qp.spec.failing_streams == 0) return false;
  qp.failed.add(wqe.stream);
  return qp.failed.count < qp.spec.failing_streams;
}

// Unreliable transports: a failed send flushes the send queue only (IBTA 10.3.1, state SQE).
bool receives_on(const Qp& qp) noexcept {
  const bool unanswered =
      qp.type == QpType::uc || qp.type == QpType::ud || qp.type == QpType::raw_packet;
  return unanswered && (qp.state == QpState::rts || qp.state == QpState::sqd);
}

void end_sends(EngineContext& context, Qp& qp) noexcept {
  if (!receives_on(qp)) return to_error(context, qp);
  context.in_error.push(qp);
  qp.state = QpState::sqe;
  qp.wait = SqWait::none;
}

// Receive WQEs: the journal's line, and whoever asks why.
void note_failed_recv(EngineContext& context, const Qp& qp, uint16_t wqe_index,
                      const Verdict& verdict) noexcept {
  context.journal->error(qp.qpn, verdict.syndrome, vendor_bytes(verdict, DataWay::receive).vendor,
                         wqe_index, verdict.why);
  if (context.failures != nullptr) context.failures->receive_fails(qp, wqe_index, verdict);
}

void note_flushed(const EngineContext& context, const Qp& qp, bool send,
                  uint16_t wqe_index) noexcept {
  if (context.failures != nullptr) context.failures->is_flushed(qp, send, wqe_index);
}

}  // namespace

void raise(EngineContext& context, Qp& qp, uint32_t type) noexcept {
  if (qp.type == QpType::dct) return;  // the kernel has no events of a target
  // Linux drivers/infiniband/hw/mlx5/qp.c, mlx5_ib_wq_event().
  if (qp.alone) type = event::wq_fatal;
  context.journal->async(type, qp.qpn.value());
  if (qp.sink != nullptr) qp.sink->async(type, qp.spec.owner);
  for (const QpHandle& h : qp.others) h.sink->async(type, h.owner);
}

void to_error(EngineContext& context, Qp& qp) noexcept {
  // A target answers for many: what goes wrong ends one connection, never the target.
  if (qp.type == QpType::dct) {
    if (qp.rc) qp.state = QpState::err;
    return;
  }
  const bool tells_last = qp.state != QpState::err && qp.spec.srqn != 0;
  context.in_error.push(qp);
  qp.state = QpState::err;
  qp.wait = SqWait::none;
  // Of a shared queue only what has been taken is flushed. Then its users are told that no more
  // will complete: they may destroy the queue pair when they have seen all until there.
  cancel_tags(context, qp);
  const bool flushed = flush_held(context, qp);
  if (tells_last) raise(context, qp, event::last_wqe_reached);
  if (!flushed) fatal_qp(context, qp, "the CQ of a receive queue is in error");
}

void fatal_qp(EngineContext& context, Qp& qp, const char* why) noexcept {
  to_error(context, qp);
  if (qp.broken) return;
  qp.broken = true;
  context.journal->error(qp.qpn, prm::Syndrome::none, 0, qp.sq.ci, why);
  if (context.failures != nullptr) context.failures->queue_breaks(qp, why);
  raise(context, qp, event::qp_fatal);
}

void fail_send(EngineContext& context, Qp& qp, const SendWqe& wqe, Verdict verdict) noexcept {
  context.journal->error(qp.qpn, verdict.syndrome,
                         vendor_bytes(verdict, way_of_send(wqe.opcode)).vendor, wqe.index,
                         verdict.why);
  if (context.failures != nullptr) context.failures->send_fails(qp, wqe, verdict);
  const bool ends = !goes_on(qp, wqe);
  qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + wqe.wqebbs);
  // The first error says what went wrong: its entry comes before those of what is flushed.
  const bool told =
      complete_failed_send(context, qp, {wqe.opcode, wqe.index, wqe.fm_ce_se, verdict});
  if (ends) end_sends(context, qp);
  if (!told) fatal_qp(context, qp, "the CQ of a send queue is in error");
}

void fail_recv(EngineContext& context, Qp& qp, uint16_t wqe_index, Verdict verdict) noexcept {
  consume_recv(context, qp);
  fail_taken_recv(context, qp, wqe_index, verdict);
}

bool drop_recv(EngineContext& context, Qp& qp, uint16_t wqe_index, Verdict verdict) noexcept {
  consume_recv(context, qp);
  note_failed_recv(context, qp, wqe_index, verdict);
  return complete_failed_recv(context, qp, wqe_index, verdict);
}

void fail_refused_recv(EngineContext& context, Qp& qp, uint16_t wqe_index) noexcept {
  fail_recv(context, qp, wqe_index, context.objection);
}

void fail_taken_recv(EngineContext& context, Qp& qp, uint16_t wqe_index, Verdict verdict) noexcept {
  note_failed_recv(context, qp, wqe_index, verdict);
  const bool told = complete_failed_recv(context, qp, wqe_index, verdict);
  to_error(context, qp);
  if (!told) fatal_qp(context, qp, "the CQ of a receive queue is in error");
}

void cancel_tags(EngineContext& context, Qp& qp) noexcept {
  if (!qp.tags) return;
  TagWork& t = *qp.tags;
  auto cancel = [&](uint16_t place) {
    complete_tag(context, qp, {prm::CqeOpcode::resp_send, prm::TagNews::canceled, place});
  };
  for (uint32_t i = t.fetched ? 1 : 0; i < t.count; i++)
    cancel(t.ring[(t.head + i) % TagWork::most].place);
  if (t.holding) cancel(t.place);
  t.count = 0;
  t.fetched = t.under_way = t.holding = false;
}

std::size_t flush_sends(EngineContext& context, Qp& qp, std::size_t budget) noexcept {
  std::size_t done = 0;
  SendWqe wqe;
  if (qp.weak) qp.weak->clear();  // sq.ci is at the oldest
  for (; done < budget && !qp.broken && qp.sq.ci != qp.sq.pi; done++) {
    if (decode_send(qp, wqe) == Decode::fault) {
      fatal_qp(context, qp, "the send ring is gone");
      break;
    }
    qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + wqe.wqebbs);
    note_flushed(context, qp, true, wqe.index);
    if (!complete_failed_send(context, qp, {wqe.opcode, wqe.index, wqe.fm_ce_se}))
      fatal_qp(context, qp, "the CQ of a send queue is in error");
  }
  return done;
}

bool flush_held(EngineContext& context, Qp& qp) noexcept {
  if (!qp.rc || !qp.rc->holds_receive) return true;
  qp.rc->holds_receive = false;
  note_flushed(context, qp, false, qp.rc->held.index);
  return complete_failed_recv(context, qp, qp.rc->held.index, flushed_recv);
}

std::size_t flush_recvs(EngineContext& context, Qp& qp, std::size_t budget) noexcept {
  std::size_t done = 0;
  uint32_t waiting = qp.broken ? 0 : recv_waiting(qp);
  for (; done < budget && !qp.broken && waiting > 0; done++, waiting--) {
    uint16_t index = qp.rq.ci;
    consume_recv(context, qp);
    note_flushed(context, qp, false, index);
    if (!complete_failed_recv(context, qp, index, flushed_recv))
      fatal_qp(context, qp, "the CQ of a receive queue is in error");
  }
  return done;
}

std::size_t flush_some(EngineContext& context, Qp& qp, std::size_t budget) noexcept {
  std::size_t done = flush_sends(context, qp, budget);
  if (qp.state == QpState::sqe) return done;
  return done + flush_recvs(context, qp, budget - done);
}

void note_drained(EngineContext& context, Qp& qp) noexcept {
  if (qp.state != QpState::sqd || qp.retrying || qp.sq_drained) return;
  qp.sq_drained = true;
  if (qp.attr.en_sqd_async_notify != 0) raise(context, qp, event::sq_drained);
}

}  // namespace kilim::vhca::wq
