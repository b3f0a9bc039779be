// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Tag Matching", rendezvous. Adapter's lock held. Never allocates.
#include "vhca/transport/rendezvous.hh"

#include "vhca/core/journal.hh"
#include "vhca/transport/requester.hh"
#include "vhca/transport/responder.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::transport {

void push_rendezvous(wq::EngineContext& context, wq::Qp& qp, const wq::Rendezvous& r) noexcept {
  wq::TagWork& t = *qp.tags;
  t.ring[(t.head + t.count++) % wq::TagWork::most] = r;
  if (qp.state == QpState::rts && qp.wait == wq::SqWait::none) context.ready->push(qp);
}

const RequestRow& rendezvous_request(wq::Qp& qp, RequestData& ask, wq::SendWqe& wqe) noexcept {
  const wq::Rendezvous& r = qp.tags->oldest();
  const prm::Opcode op = qp.tags->fetched ? prm::Opcode::send : prm::Opcode::rdma_read;
  wqe.opcode = static_cast<uint8_t>(op);
  wqe.fm_ce_se = 0;
  wqe.imm_raw = 0;
  ask.rendezvous = true;
  ask.data.count = 1;
  if (qp.tags->fetched) {
    ask.bytes = r.header.size();
    ask.data.segments[0] = {reinterpret_cast<uint64_t>(r.header.data()), ask.bytes, 0, true};
  } else {
    ask.bytes = r.bytes;
    ask.remote_addr = r.va;
    ask.rkey = r.rkey;
    ask.data.segments[0] = {r.buffer.addr, ask.bytes, r.buffer.key, false};
  }
  ask.data.total = ask.bytes;
  return *request_row(qp.type, wqe.opcode);
}

Verdict check_rendezvous(const wq::EngineContext& context, const wq::Qp& qp, const RequestRow& row,
                         const RequestData& ask) noexcept {
  if (is_answered(row.kind) && qp.attr.max_rd_atomic == 0)
    return malformed("the queue issues no READ");
  return check_own_memory(context, qp, row, ask);
}

Verdict exec_rendezvous(wq::EngineContext& context, const ObjectTable<wq::Qp>& qps,
                        wq::Qp& qp) noexcept {
  RequestData ask;
  wq::SendWqe wqe;
  const RequestRow& row = rendezvous_request(qp, ask, wqe);
  if (Verdict o = check_rendezvous(context, qp, row, ask); !o.ok()) return o;
  wq::Qp* peer = answering_peer(qps, qp);
  if (peer == nullptr) return Verdict::no_answer("the sender of a rendezvous does not answer");
  return respond(context, *peer, row.kind, {wqe, ask, own_memory(qp, row.kind, ask)});
}

void rendezvous_answered(wq::EngineContext& context, wq::Qp& qp) noexcept {
  wq::TagWork& t = *qp.tags;
  const wq::Rendezvous& r = t.oldest();
  t.under_way = false;
  if (t.fetched) {
    t.fetched = false;
    t.head = (t.head + 1) % wq::TagWork::most;
    t.count--;
    return;
  }
  t.fetched = true;
  wq::TagCompletion done{prm::CqeOpcode::resp_send, prm::TagNews::expected, r.place};
  done.bytes = r.bytes;
  if (!wq::complete_tag(context, qp, done))
    wq::fatal_qp(context, qp, "the CQ of a queue that matches tags is in error");
}

void fail_rendezvous(wq::EngineContext& context, wq::Qp& qp, Verdict verdict) noexcept {
  context.journal->error(qp.qpn, verdict.syndrome, 0, 0, verdict.why);
  wq::cancel_tags(context, qp);
  wq::to_error(context, qp);
}

}  // namespace kilim::vhca::transport
