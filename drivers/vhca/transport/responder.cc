// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", responder. Adapter's lock held. Never allocates.
#include "vhca/transport/responder.hh"

#include "vhca/hca/dma.hh"
#include "vhca/hca/journal.hh"
#include "vhca/tpt/umr_apply.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca {

namespace {

using prm::Opcode;
using prm::Syndrome;

constexpr uint64_t no_bad_key = 0;

// The first packet that reaches a queue in RTR.
void establish(Works& works, Qp& qp) noexcept {
  if (qp.established || qp.state != QpState::rtr) return;
  qp.established = true;
  raise(works, qp, event::comm_est);
}

// A refused request that used up no receive WQE: the queue goes to ERR and says so by an event.
// An unreliable connection drops it without a word.
Outcome refuse(Works& works, Qp& qp, Syndrome to_requester, const char* why) noexcept {
  works.journal->error(qp.qpn, to_requester, 0, qp.rq.ci, why);
  if (qp.type == QpType::uc) return Outcome::failed(to_requester, why);
  to_error(works, qp);
  raise(works, qp,
        to_requester == Syndrome::remote_access ? event::qp_access_err : event::qp_req_err);
  return Outcome::failed(to_requester, why);
}

// The requester's own memory was refused: nothing has happened here.
Outcome local_denied(Deny d) noexcept {
  return Outcome::failed(Syndrome::local_prot, deny_name(d));
}

void note(Works& works, const Request& r, const Transfer& t) noexcept {
  if (t.source == Deny::fault || t.target == Deny::fault)
    return works.journal->fault(t.fault_va, static_cast<uint32_t>(r.bytes));
  if (!t.ok()) return;
  uint32_t key = r.local.segments.empty() ? r.rkey : r.local.segments[0].key;
  works.journal->translated(r.rkey != 0 ? r.rkey : key, t.pieces, r.bytes);
}

// The requester checks its own list before it sends anything.
bool source_is_bad(Works& works, const Request& r, Deny& d) noexcept {
  uint32_t bad_key = no_bad_key;
  d = check_list(works.translator, r.local, r.bytes, bad_key);
  return d != Deny::none;
}

// Whose keys a request may name: an XRC target answers on behalf of the queue that it names.
Pdn remote_pd(const Qp& qp) noexcept {
  return qp.type == QpType::xrc_tgt && qp.srq != nullptr ? qp.srq->spec.pd : qp.spec.pd;
}

SegmentList remote_range(const Qp& qp, const Segment& s, uint8_t right) noexcept {
  return {{&s, 1}, {remote_pd(qp), qp.qpn.value(), right}};
}

prm::CqeOpcode receive_opcode(const SendWqe& wqe) noexcept {
  switch (static_cast<Opcode>(wqe.opcode)) {
    case Opcode::send_imm:
      return prm::CqeOpcode::resp_send_imm;
    case Opcode::send_inval:
      return prm::CqeOpcode::resp_send_inv;
    case Opcode::rdma_write_imm:
      return prm::CqeOpcode::resp_wr_imm;
    default:
      return prm::CqeOpcode::resp_send;
  }
}

Outcome finish_receive(Works& works, Qp& qp, const Request& r, const RecvWqe& wqe) noexcept {
  consume_recv(works, qp);
  RecvCompletion done;
  done.op = receive_opcode(r.wqe);
  done.wqe_index = wqe.index;
  done.bytes = static_cast<uint32_t>(r.bytes);
  done.imm_raw = done.op == prm::CqeOpcode::resp_send ? 0 : r.wqe.imm_raw;
  done.remote_qpn = r.from_qpn;
  done.solicited = r.wqe.solicited();
  if (!complete_recv(works, qp, done)) fatal_qp(works, qp, "the CQ of a receive queue is in error");
  return Outcome::done();
}

// Takes a receive WQE for a request that needs one; `result` says why there is none.
bool take(Works& works, Qp& qp, RecvWqe& wqe, Outcome& result) noexcept {
  switch (peek_recv(works, qp, wqe)) {
    case RecvTake::ok:
      return true;
    case RecvTake::empty:
      result = Outcome::rnr(qp.attr.min_rnr_timer);
      return false;
    case RecvTake::fault:
      fatal_qp(works, qp, "the receive ring is gone");
      result = Outcome::failed(Syndrome::remote_op, "the receive ring is gone");
      return false;
  }
  return false;
}

// NOLINTNEXTLINE(readability-function-size): six parameters
Outcome fail_receive(Works& works, Qp& qp, const RecvWqe& wqe, Syndrome mine, Syndrome theirs,
                     const char* why) noexcept {
  fail_recv(works, qp, wqe.index, mine, why);
  return Outcome::failed(theirs, why);
}

}  // namespace

Outcome respond_send(Works& works, Qp& qp, const Request& r) noexcept {
  Deny denied = Deny::none;
  RecvWqe wqe;
  Outcome result;
  if (source_is_bad(works, r, denied)) return local_denied(denied);
  establish(works, qp);
  if (!take(works, qp, wqe, result)) return result;
  if (r.bytes > wqe.room)
    return fail_receive(works, qp, wqe, Syndrome::local_length, Syndrome::remote_inval_req,
                        "message longer than its receive WQE");
  SegmentList to{{wqe.segments.data(), wqe.count}, recv_access(qp)};
  Transfer t = move_bytes(works.translator, r.local, to, r.bytes);
  note(works, r, t);
  if (t.source != Deny::none) return local_denied(t.source);
  if (t.target != Deny::none)
    return fail_receive(works, qp, wqe, Syndrome::local_prot, Syndrome::remote_op,
                        deny_name(t.target));
  if (r.wqe.opcode == static_cast<uint8_t>(Opcode::send_inval)) {
    uint32_t key = be32::from_raw(r.wqe.imm_raw).host();
    Deny d = invalidate_key(*works.keys, key, remote_pd(qp), qp.qpn.value());
    if (d != Deny::none)
      return fail_receive(works, qp, wqe, Syndrome::local_access, Syndrome::remote_access,
                          deny_name(d));
    works.journal->invalidate(key);
  }
  return finish_receive(works, qp, r, wqe);
}

Outcome respond_write(Works& works, Qp& qp, const Request& r) noexcept {
  Deny denied = Deny::none;
  bool with_imm = r.wqe.opcode == static_cast<uint8_t>(Opcode::rdma_write_imm);
  bool allowed = (qp.attr.access & access::remote_write) != 0;
  if ((!allowed || with_imm) && source_is_bad(works, r, denied)) return local_denied(denied);
  establish(works, qp);
  if (!allowed)
    return refuse(works, qp, Syndrome::remote_inval_req, "the queue takes no RDMA WRITE");
  Segment range{r.remote_addr, r.bytes, r.rkey, false};
  SegmentList to = remote_range(qp, range, prm::mkey::remote_write);
  RecvWqe wqe;
  Outcome result;
  if (with_imm) {
    uint32_t bad_key = no_bad_key;
    Deny d = check_list(works.translator, to, r.bytes, bad_key);
    if (d != Deny::none) return refuse(works, qp, Syndrome::remote_access, deny_name(d));
    if (!take(works, qp, wqe, result)) return result;
  }
  Transfer t = move_bytes(works.translator, r.local, to, r.bytes);
  note(works, r, t);
  if (t.source != Deny::none) return local_denied(t.source);
  if (t.target != Deny::none)
    return refuse(works, qp, Syndrome::remote_access, deny_name(t.target));
  return with_imm ? finish_receive(works, qp, r, wqe) : Outcome::done();
}

Outcome respond_read(Works& works, Qp& qp, const Request& r) noexcept {
  establish(works, qp);
  if ((qp.attr.access & access::remote_read) == 0 || qp.attr.max_dest_rd_atomic == 0)
    return refuse(works, qp, Syndrome::remote_inval_req, "the queue takes no RDMA READ");
  Segment range{r.remote_addr, r.bytes, r.rkey, false};
  SegmentList from = remote_range(qp, range, prm::mkey::remote_read);
  Transfer t = move_bytes(works.translator, from, r.local, r.bytes);
  note(works, r, t);
  if (t.source != Deny::none)
    return refuse(works, qp, Syndrome::remote_access, deny_name(t.source));
  if (t.target != Deny::none) return local_denied(t.target);
  return Outcome::done(static_cast<uint32_t>(r.bytes));
}

Outcome respond_atomic(Works& works, Qp& qp, const Request& r) noexcept {
  establish(works, qp);
  if ((qp.attr.access & access::remote_atomic) == 0 || qp.attr.max_dest_rd_atomic == 0)
    return refuse(works, qp, Syndrome::remote_inval_req, "the queue takes no atomics");
  if (r.remote_addr % 8 != 0)
    return refuse(works, qp, Syndrome::remote_inval_req, "an atomic on an unaligned address");
  Walk walk;
  Piece piece;
  Access need{remote_pd(qp), qp.qpn.value(), prm::mkey::atomic};
  Deny d = walk.open(*works.keys, works.translator.max_indirection, r.rkey, r.remote_addr, 8, need);
  if (d == Deny::none && !walk.next(piece)) d = walk.denied();
  if (d == Deny::none && (piece.bytes < 8 || piece.va % 8 != 0)) d = Deny::bounds;
  if (d != Deny::none) return refuse(works, qp, Syndrome::remote_access, deny_name(d));
  // The answer has to have a place before memory changes.
  uint32_t bad_key = no_bad_key;
  if (d = check_list(works.translator, r.local, 8, bad_key); d != Deny::none)
    return local_denied(d);
  uint64_t old = 0;
  bool add = r.wqe.opcode == static_cast<uint8_t>(Opcode::atomic_fa);
  bool ok = add ? dma::fetch_add(Va{piece.va}, r.swap_add, old)
                : dma::compare_exchange(Va{piece.va}, r.compare, r.swap_add, old);
  if (!ok) return refuse(works, qp, Syndrome::remote_access, deny_name(Deny::fault));
  Transfer t =
      scatter_bytes(works.translator, reinterpret_cast<const std::byte*>(&old), 8, r.local);
  if (t.target != Deny::none) return local_denied(t.target);
  t.pieces++;
  note(works, r, t);
  return Outcome::done(8);
}

}  // namespace kilim::vhca
