// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", requester. Adapter's lock held. Never allocates.
#include "vhca/transport/requester.hh"

#include <array>
#include <span>

#include "vhca/core/journal.hh"
#include "vhca/transport/dynamic.hh"
#include "vhca/transport/request.hh"
#include "vhca/transport/responder.hh"
#include "vhca/transport/responder_checks.hh"
#include "vhca/wq/in_entry.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Syndrome;

Verdict no_answer(const wq::Qp& qp) noexcept {
  return Verdict::no_answer(qp.loopback ? "the peer does not answer" : "no way to that address");
}

// The requester's memory is checked although the answer goes to the completion: libmlx5 copies it
// there when it polls (mlx5_copy_to_send_wqe).
// NOLINTNEXTLINE(readability-function-size): six parameters
Verdict answer_in_entry(wq::EngineContext& context, wq::Qp& qp, wq::Qp& peer,
                        const wq::SendWqe& wqe, const RequestData& ask,
                        const RequestRow& row) noexcept {
  if (Verdict o = check_own_memory(context, qp, row, ask); !o.ok()) return o;
  tpt::Segment entry = wq::entry_segment(context);
  return respond(context, peer, row.kind, {wqe, ask, {{&entry, 1}, {}}});
}

// NOLINTNEXTLINE(readability-function-size): six parameters
Verdict exec_transfer(wq::EngineContext& context, const ObjectTable<wq::Qp>& qps, wq::Qp& qp,
                      const wq::SendWqe& wqe, const RequestRow& row, Answer& answer) noexcept {
  RequestData ask;
  if (Verdict o = read_request(qp, row, wqe, ask); !o.ok()) return o;
  const bool dynamic = qp.type == QpType::dci;
  if (dynamic && !leaves_by_own_gid(context, ask.to)) return malformed("no such source GID");
  wq::Qp* peer = dynamic ? called_target(context, qps, ask.to) : answering_peer(qps, qp);
  if (peer == nullptr) {
    Verdict o = check_own_memory(context, qp, row, ask);
    return o.ok() ? no_answer(qp) : o;
  }
  if (qp.type == QpType::xrc_ini) {
    if (Verdict o = aim_at_srq(context, *peer, ask.srqn); !o.ok()) return o;
  }
  if (dynamic) {
    if (Verdict o = check_own_memory(context, qp, row, ask); !o.ok()) return o;
    if (Verdict o = open_to(context, *peer, qp.qpn, prm::av::dc_key(ask.to)); !o.ok()) return o;
  }
  if (!is_answered(row.kind))
    return respond(context, *peer, row.kind, {wqe, ask, own_memory(qp, row.kind, ask)});
  const bool kept = context.keeps_answers && ask.bytes <= context.entry_data.size();
  answer = {static_cast<uint32_t>(ask.bytes),
            kept || wq::answered_in_entry(qp, wqe.signaled(), ask.bytes)};
  if (answer.in_entry) return answer_in_entry(context, qp, *peer, wqe, ask, row);
  return respond(context, *peer, row.kind, {wqe, ask, own_memory(qp, row.kind, ask)});
}

// UC has no acknowledgements: what the responder refuses, the requester never hears of.
Verdict forget_remote(const Verdict& o) noexcept {
  bool local = o.failed() && o.syndrome != Syndrome::remote_inval_req &&
               o.syndrome != Syndrome::remote_access && o.syndrome != Syndrome::remote_op;
  return local ? o : Verdict::done();
}

}  // namespace

wq::Qp* answering_peer(const ObjectTable<wq::Qp>& qps, const wq::Qp& qp) noexcept {
  if (!qp.loopback) return nullptr;
  wq::Qp* peer = qps.at(qp.attr.dest_qpn.value());
  QpType wanted = qp.type == QpType::xrc_ini ? QpType::xrc_tgt : qp.type;
  if (peer == nullptr || peer->type != wanted || peer->attr.dest_qpn != qp.qpn) return nullptr;
  return answers(*peer) && peer->loopback ? peer : nullptr;
}

Verdict exec_request(wq::EngineContext& context, const ObjectTable<wq::Qp>& qps, wq::Qp& qp,
                     const wq::SendWqe& wqe, Answer& answer) noexcept {
  const RequestRow* row = request_row(qp.type, wqe.opcode);
  if (row == nullptr) return malformed("no request for a peer");
  Verdict o = exec_transfer(context, qps, qp, wqe, *row, answer);
  if (!o.ok()) answer = {};
  wq::report_sent_errors(context, qp);
  return qp.type == QpType::uc ? forget_remote(o) : o;
}

Verdict write_answer(wq::EngineContext& context, wq::Qp& qp, const wq::SendWqe& wqe,
                     std::span<const std::byte> answer) noexcept {
  const RequestRow* row = request_row(qp.type, wqe.opcode);
  RequestData ask;
  if (row == nullptr || !read_request(qp, *row, wqe, ask).ok() || ask.bytes > answer.size())
    return malformed("a WQE under way has changed");
  const tpt::SegmentList to = own_memory(qp, row->kind, ask);
  const tpt::Transfer t = tpt::scatter_bytes(context.translator, answer.data(), ask.bytes, to);
  wq::report_sent_errors(context, qp);
  if (t.target == tpt::protection::gone)
    context.journal->fault(t.fault_va, static_cast<uint32_t>(ask.bytes));
  if (!t.ok()) return t.target;
  context.journal->translated(ask.rkey, t.pieces, ask.bytes);
  return Verdict::done();
}

uint64_t timeout_ns(uint8_t timeout) noexcept {
  // 0 means for ever: the engine looks again from time to time and never gives up.
  return timeout == 0 ? 100'000'000 : uint64_t{4096} << (timeout & 31);
}

uint64_t rnr_timer_ns(uint8_t timer) noexcept {
  // IBTA 9.7.5.2.8, encodings of the RNR NAK timer, in units of 10 microseconds.
  static constexpr std::array<uint32_t, 32> table = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return uint64_t{table[timer & 31]} * 10'000;
}

}  // namespace kilim::vhca::transport
