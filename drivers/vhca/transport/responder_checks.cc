// SPDX-License-Identifier: BSD-3-Clause
// What a request meets at a queue. Adapter's lock held. Never allocates.
#include "vhca/transport/responder_checks.hh"

#include <utility>

#include "kilim/prm/lint_rules.hh"
#include "vhca/core/journal.hh"
#include "vhca/memory/dma.hh"
#include "vhca/tpt/paged_copy.hh"
#include "vhca/tpt/paging.hh"
#include "vhca/tpt/pinned_copy.hh"
#include "vhca/tpt/umr_apply.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/failure_observer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Syndrome;

bool allows(const wq::Qp& qp, uint32_t right) noexcept {
  return (qp.attr.access & right) != 0;
}

// Whether the message's receive WQE has left its ring already; it is let go of.
bool let_go(wq::Qp& qp) noexcept {
  return qp.rc && std::exchange(qp.rc->holds_receive, false);
}

Verdict refuse_for(wq::EngineContext& context, wq::Qp& qp, const tpt::SegmentList& asked,
                   Verdict to_requester) noexcept {
  context.journal->error(qp.qpn, to_requester.syndrome, 0, qp.rq.ci, to_requester.why);
  if (context.failures != nullptr) context.failures->request_refused(qp, asked, to_requester);
  if (qp.type == QpType::uc) return to_requester;
  wq::to_error(context, qp);
  wq::raise(context, qp,
            to_requester.syndrome == Syndrome::remote_access ? wq::event::qp_access_err
                                                             : wq::event::qp_req_err);
  return to_requester;
}

}  // namespace

void establish(wq::EngineContext& context, wq::Qp& qp) noexcept {
  if (qp.established || qp.state != QpState::rtr) return;
  qp.established = true;
  wq::raise(context, qp, wq::event::comm_est);
}

Verdict refuse(wq::EngineContext& context, wq::Qp& qp, Verdict to_requester) noexcept {
  return refuse_for(context, qp, {}, to_requester);
}

Verdict refuse_range(wq::EngineContext& context, wq::Qp& qp, const tpt::SegmentList& asked,
                     const char* why) noexcept {
  return refuse_for(context, qp, asked, {Syndrome::remote_access, why});
}

Verdict admit_write(wq::EngineContext& context, wq::Qp& qp) noexcept {
  if (allows(qp, access::remote_write)) return Verdict::done();
  return refuse(context, qp, {Syndrome::remote_inval_req, "the queue takes no RDMA WRITE"});
}

Verdict admit_read(wq::EngineContext& context, wq::Qp& qp) noexcept {
  if (allows(qp, access::remote_read) && qp.attr.max_dest_rd_atomic != 0) return Verdict::done();
  return refuse(context, qp, {Syndrome::remote_inval_req, "the queue takes no RDMA READ"});
}

Verdict admit_atomic(wq::EngineContext& context, wq::Qp& qp, uint64_t va) noexcept {
  if (!allows(qp, access::remote_atomic) || qp.attr.max_dest_rd_atomic == 0)
    return refuse(context, qp, {Syndrome::remote_inval_req, "the queue takes no atomics"});
  if (va % 8 == 0) return Verdict::done();
  return refuse(context, qp, {Syndrome::remote_inval_req, "an atomic on an unaligned address"});
}

Pdn remote_pd(const wq::Qp& qp) noexcept {
  return qp.type == QpType::xrc_tgt && qp.srq != nullptr ? qp.srq->spec.pd : qp.spec.pd;
}

tpt::SegmentList remote_range(const wq::Qp& qp, const tpt::Segment& s, uint8_t right) noexcept {
  const uint8_t operation = right == prm::mkey::remote_read ? paged_op::read : paged_op::write;
  return {{&s, 1}, {remote_pd(qp), qp.qpn.value(), right, wq::may_fault(qp, operation)}};
}

Verdict admit_range(wq::EngineContext& context, wq::Qp& qp, const tpt::Segment& s,
                    uint8_t right) noexcept {
  uint32_t bad_key = 0;
  const tpt::SegmentList asked = remote_range(qp, s, right);
  Verdict d = tpt::check_list(context.translator, asked, s.bytes, bad_key);
  return d.ok() ? Verdict::done() : refuse_range(context, qp, asked, d.why);
}

Verdict aim_at_srq(wq::EngineContext& context, wq::Qp& target, uint32_t srqn) noexcept {
  wq::Srq* srq = context.srqs->at(srqn);
  if (srq == nullptr || !srq->spec.xrc || srq->spec.xrcd != target.spec.xrcd)
    return refuse(context, target, {Syndrome::remote_inval_req, "no such XRC queue"});
  target.srq = srq;
  target.recv_cq = srq->cq;
  return Verdict::done();
}

Verdict page_missed(const wq::Qp& qp) noexcept {
  return Verdict::rnr(qp.attr.min_rnr_timer);
}

Verdict page_in_range(wq::EngineContext& context, wq::Qp& qp, const tpt::Segment& s,
                      uint8_t right) noexcept {
  const tpt::SegmentList asked = remote_range(qp, s, right);
  Verdict d = tpt::page_in(context.translator, asked, s.bytes);
  if (d.ok()) return Verdict::done();
  if (d.misses_page()) return page_missed(qp);
  return refuse_range(context, qp, asked, d.why);
}

Verdict find_word(wq::EngineContext& context, wq::Qp& qp, uint32_t rkey, uint64_t va,
                  tpt::Piece& piece) noexcept {
  tpt::Walk walk;
  tpt::Access need{remote_pd(qp), qp.qpn.value(), prm::mkey::atomic,
                   wq::may_fault(qp, paged_op::atomic)};
  Verdict d = walk.open(*context.keys, context.translator.max_indirection, rkey, va, 8, need);
  if (d.ok() && walk.is_signed()) d = tpt::protection::signature;
  if (d.ok() && !walk.next(piece)) d = walk.denied();
  if (d.ok() && (piece.bytes < 8 || piece.va % 8 != 0)) d = tpt::protection::bounds;
  const tpt::Segment word{va, 8, rkey, false};
  if (d.ok() && piece.paged != nullptr) d = tpt::page_in(context.translator, {{&word, 1}, need}, 8);
  if (d.misses_page()) return page_missed(qp);
  return d.ok() ? Verdict::done() : refuse_range(context, qp, {{&word, 1}, need}, d.why);
}

Verdict change_word(wq::EngineContext& context, wq::Qp& qp, const tpt::Piece& word,
                    const WordChange& c, uint64_t& old) noexcept {
  auto change = [&](uint64_t va) {
    return c.add ? memory::dma::fetch_add(Va{va}, c.swap_add, old)
                 : memory::dma::compare_exchange(Va{va}, c.compare, c.swap_add, old);
  };
  if (word.paged != nullptr)
    return tpt::with_page(word, change) ? Verdict::done() : page_missed(qp);
  if (change(word.va)) return Verdict::done();
  const auto slowly = [&](uint64_t was) {
    if (c.add) return was + c.swap_add;
    return was == c.compare ? c.swap_add : was;
  };
  if (tpt::change_pinned_word(word.va, old, slowly)) return Verdict::done();
  return refuse(context, qp, {Syndrome::remote_access, tpt::protection::gone.why});
}

Verdict claim_receive(wq::EngineContext& context, wq::Qp& qp, wq::RecvWqe& wqe) noexcept {
  if (qp.rc && qp.rc->holds_receive) {
    wqe = qp.rc->held;
    return Verdict::done();
  }
  switch (wq::peek_recv(context, qp, wqe)) {
    case wq::RecvTake::ok:
      return Verdict::done();
    case wq::RecvTake::empty:
      context.counts.rnr_naks++;
      return Verdict::rnr(qp.attr.min_rnr_timer);
    case wq::RecvTake::refused:
      return fail_receive(context, qp, wqe, context.objection, Syndrome::remote_op);
    case wq::RecvTake::fault:
      break;
  }
  wq::fatal_qp(context, qp, "the receive ring is gone");
  return {Syndrome::remote_op, "the receive ring is gone"};
}

void hold_receive(wq::EngineContext& context, wq::Qp& qp, const wq::RecvWqe& wqe) noexcept {
  if (std::exchange(qp.rc->holds_receive, true)) return;
  qp.rc->held = wqe;
  wq::consume_recv(context, qp);
}

Verdict fail_receive(wq::EngineContext& context, wq::Qp& qp, const wq::RecvWqe& wqe, Verdict mine,
                     Syndrome theirs) noexcept {
  (let_go(qp) ? wq::fail_taken_recv : wq::fail_recv)(context, qp, wqe.index, mine);
  return {theirs, mine.why};
}

Verdict invalidate_received(wq::EngineContext& context, wq::Qp& qp, const wq::RecvWqe& wqe,
                            uint32_t imm_raw) noexcept {
  uint32_t key = be32::from_raw(imm_raw).host();
  Verdict d = tpt::invalidate_key(*context.keys, key, remote_pd(qp), qp.qpn.value(),
                                  tpt::Invalidator::peer);
  if (!d.ok()) return fail_receive(context, qp, wqe, d, Syndrome::remote_access);
  context.journal->invalidate(key);
  wq::note_key_change(context, qp, wqe.index, key, wq::KeyChange::invalidated_by_peer);
  return Verdict::done();
}

void finish_receive(wq::EngineContext& context, wq::Qp& qp, const wq::RecvWqe& wqe,
                    const Received& r) noexcept {
  if (!let_go(qp)) wq::consume_recv(context, qp);
  wq::RecvCompletion done;
  done.op = r.op;
  done.wqe_index = wqe.index;
  done.bytes = static_cast<uint32_t>(r.bytes);
  done.imm_raw = r.op == prm::CqeOpcode::resp_send ? 0 : r.imm_raw;
  done.remote_qpn = qp.attr.dest_qpn.value();
  done.solicited = r.solicited;
  done.in_entry = r.in_entry;
  if (qp.tags && r.op != prm::CqeOpcode::resp_wr_imm) done.news = qp.tags->news;
  if (!wq::complete_recv(context, qp, done))
    wq::fatal_qp(context, qp, "the CQ of a receive queue is in error");
}

}  // namespace kilim::vhca::transport
