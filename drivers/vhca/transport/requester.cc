// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", requester. Adapter's lock held. Never allocates.
#include "vhca/transport/requester.hh"

#include <array>
#include <cstring>
#include <span>

#include "kilim/prm/bsf_seg.hh"
#include "vhca/hca/journal.hh"
#include "vhca/tpt/umr_apply.hh"
#include "vhca/transport/arrival.hh"
#include "vhca/transport/dma_copy.hh"
#include "vhca/transport/dynamic.hh"
#include "vhca/transport/request.hh"
#include "vhca/transport/responder.hh"
#include "vhca/transport/tag_match.hh"
#include "vhca/wq/in_entry.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca {

namespace {

using prm::Opcode;
using prm::Syndrome;

constexpr const char* unknown_opcode = "an opcode that the queue does not know";

Outcome no_answer(const Qp& qp) noexcept {
  return Outcome::no_answer(qp.loopback ? "the peer does not answer" : "no way to that address");
}

Outcome exec_umr(Works& works, const Qp& qp, const SendWqe& wqe) noexcept {
  UmrRequest request{be32::from_raw(wqe.imm_raw).host(), wqe.body(), qp.spec.pd, qp.qpn.value()};
  UmrOutcome got = umr_apply(*works.keys, works.translator, *works.profile, request);
  if (got.syndrome != Syndrome::none) return Outcome::failed(got.syndrome, got.why);
  if (got.freed && got.octowords == 0)
    works.journal->invalidate(got.new_key);
  else
    works.journal->umr(got.new_key, got.octowords, got.bytes, got.mask);
  return Outcome::done();
}

Outcome exec_local_inval(Works& works, const Qp& qp, const SendWqe& wqe) noexcept {
  uint32_t key = be32::from_raw(wqe.imm_raw).host();
  Deny d = invalidate_key(*works.keys, key, qp.spec.pd, qp.qpn.value(), Invalidator::owner);
  if (d != Deny::none) return Outcome::failed(Syndrome::mw_bind, deny_name(d));
  works.journal->invalidate(key);
  return Outcome::done();
}

Outcome exec_set_psv(Works& works, const Qp& qp, const SendWqe& wqe) noexcept {
  prm::SetPsvSeg seg;
  if (wqe.body().size() != sizeof(seg)) return malformed("SET_PSV has one segment");
  std::memcpy(&seg, wqe.body().data(), sizeof(seg));
  Psv* psv = works.keys->psvs().at(seg.psv.host() & 0xffffff);
  if (psv == nullptr || psv->pd != qp.spec.pd) return malformed("no such PSV in this domain");
  psv->value = seg.signature.host();
  return Outcome::done();
}

// The own memory is asked for although the answer goes to the completion: the client's library
// writes there.
// NOLINTNEXTLINE(readability-function-size): six parameters
Outcome answer_in_entry(Works& works, Qp& qp, Qp& peer, const SendWqe& wqe, const RequestData& ask,
                        const RequestRow& row) noexcept {
  if (Outcome o = check_own_memory(works, qp, row, ask); !o.ok()) return o;
  Segment entry = entry_segment(works);
  Outcome o = respond(works, peer, row.kind, {wqe, ask, {{&entry, 1}, {}}});
  o.in_entry = o.ok();
  return o;
}

Outcome exec_transfer(Works& works, const ObjectTable<Qp>& qps, Qp& qp, const SendWqe& wqe,
                      const RequestRow& row) noexcept {
  RequestData ask;
  if (Outcome o = read_request(qp, row, wqe, ask); !o.ok()) return o;
  const bool dynamic = qp.type == QpType::dci;
  if (dynamic && !leaves_by_own_gid(works, ask.to)) return malformed("no such source GID");
  Qp* peer = dynamic ? called_target(works, qps, ask.to) : answering_peer(qps, qp);
  if (peer == nullptr) {
    Outcome o = check_own_memory(works, qp, row, ask);
    return o.ok() ? no_answer(qp) : o;
  }
  if (qp.type == QpType::xrc_ini) {
    if (Outcome o = aim_at_srq(works, *peer, ask.srqn); !o.ok()) return o;
  }
  if (dynamic) {
    if (Outcome o = check_own_memory(works, qp, row, ask); !o.ok()) return o;
    if (Outcome o = open_to(works, *peer, qp.qpn, prm::av::dc_key(ask.to)); !o.ok()) return o;
  }
  const bool kept = works.keeps_answers && ask.bytes <= works.entry_data.size();
  if (is_answered(row.kind) && (kept || answered_in_entry(qp, wqe.signaled(), ask.bytes)))
    return answer_in_entry(works, qp, *peer, wqe, ask, row);
  return respond(works, *peer, row.kind, {wqe, ask, own_memory(qp, row.kind, ask)});
}

// Nobody tells the sender of an unreliable connection what became of its message.
Outcome forget_remote(const Outcome& o) noexcept {
  bool local = o.kind == Outcome::Kind::failed && o.syndrome != Syndrome::remote_inval_req &&
               o.syndrome != Syndrome::remote_access && o.syndrome != Syndrome::remote_op;
  return local ? o : Outcome::done();
}

}  // namespace

Qp* answering_peer(const ObjectTable<Qp>& qps, const Qp& qp) noexcept {
  if (!qp.loopback) return nullptr;
  Qp* peer = qps.at(qp.attr.dest_qpn.value());
  QpType wanted = qp.type == QpType::xrc_ini ? QpType::xrc_tgt : qp.type;
  if (peer == nullptr || peer->type != wanted || peer->attr.dest_qpn != qp.qpn) return nullptr;
  return answers(*peer) && peer->loopback ? peer : nullptr;
}

Outcome exec_key_change(Works& works, const Qp& qp, const SendWqe& wqe) noexcept {
  if (wqe.opcode == static_cast<uint8_t>(Opcode::umr)) return exec_umr(works, qp, wqe);
  if (wqe.opcode == static_cast<uint8_t>(Opcode::local_inval))
    return exec_local_inval(works, qp, wqe);
  const bool psv = wqe.opcode == static_cast<uint8_t>(Opcode::set_psv) &&
                   (qp.type == QpType::rc || qp.type == QpType::xrc_ini);
  return psv ? exec_set_psv(works, qp, wqe) : malformed(unknown_opcode);
}

Outcome exec_rc(Works& works, const ObjectTable<Qp>& qps, Qp& qp, const SendWqe& wqe) noexcept {
  if (qp.failed.has(wqe.stream)) return Outcome::failed(Syndrome::wr_flush, "its stream failed");
  if (const RequestRow* row = request_row(qp.type, wqe.opcode)) {
    Outcome o = exec_transfer(works, qps, qp, wqe, *row);
    tell_sent_errors(works, qp);
    return qp.type == QpType::uc ? forget_remote(o) : o;
  }
  switch (static_cast<Opcode>(wqe.opcode)) {
    case Opcode::nop:
      return Outcome::done();
    case Opcode::set_psv:
    case Opcode::umr:
    case Opcode::local_inval:
      return exec_key_change(works, qp, wqe);
    case Opcode::tag_matching:
      return exec_tag_operation(works, qp, wqe);
    case Opcode::mmo:
      if (qp.type == QpType::rc || qp.type == QpType::dci) return exec_dma_copy(works, qp, wqe);
      break;
    default:
      break;
  }
  return malformed(unknown_opcode);
}

Outcome write_answer(Works& works, Qp& qp, const SendWqe& wqe,
                     std::span<const std::byte> answer) noexcept {
  const RequestRow* row = request_row(qp.type, wqe.opcode);
  RequestData ask;
  if (row == nullptr || !read_request(qp, *row, wqe, ask).ok() || ask.bytes > answer.size())
    return malformed("a WQE under way has changed");
  const SegmentList to = own_memory(qp, row->kind, ask);
  const Transfer t = scatter_bytes(works.translator, answer.data(), ask.bytes, to);
  tell_sent_errors(works, qp);
  if (t.target == Deny::page) return Outcome::stall();
  if (t.target == Deny::fault) works.journal->fault(t.fault_va, static_cast<uint32_t>(ask.bytes));
  if (!t.ok()) return Outcome::failed(Syndrome::local_prot, deny_name(t.target));
  works.journal->translated(ask.rkey, t.pieces, ask.bytes);
  return Outcome::done(static_cast<uint32_t>(ask.bytes));
}

uint64_t timeout_ns(uint8_t timeout) noexcept {
  // 0 means for ever: the engine looks again from time to time and never gives up.
  return timeout == 0 ? 100'000'000 : uint64_t{4096} << (timeout & 31);
}

uint64_t rnr_timer_ns(uint8_t timer) noexcept {
  // InfiniBand's table, in units of 10 microseconds.
  static constexpr std::array<uint32_t, 32> table = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return uint64_t{table[timer & 31]} * 10'000;
}

}  // namespace kilim::vhca
