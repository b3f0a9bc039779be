// SPDX-License-Identifier: BSD-3-Clause
// SEND at the responder of a connected queue whose peer is on the wire. Adapter's lock held. Never
// allocates.
#include "vhca/transport/receiver_wire.hh"

#include "vhca/core/journal.hh"
#include "vhca/transport/responder_checks.hh"
#include "vhca/transport/tag_match.hh"
#include "vhca/wq/failure_observer.hh"
#include "vhca/wq/in_entry.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Syndrome;
namespace flag = roce::flag;

prm::CqeOpcode completion_of(const RocePacket& p) noexcept {
  return has(p, flag::write)  ? prm::CqeOpcode::resp_wr_imm
         : has(p, flag::imm)  ? prm::CqeOpcode::resp_send_imm
         : has(p, flag::ieth) ? prm::CqeOpcode::resp_send_inv
                              : prm::CqeOpcode::resp_send;
}

// Its payload lies in the receive WQE behind what came before.
Verdict receive_in_wqe(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  wq::EngineContext& context = *link.context;
  wq::RecvWqe& recv = link.recv;
  if (Verdict o = claim_receive(context, qp, recv); !o.ok()) return o;
  // Of a shared queue: another message may come between the packets of this one.
  if (qp.srq != nullptr) hold_receive(context, qp, recv);
  SubList part;
  if (!cut_list({recv.segments.data(), recv.count}, w.received, p.payload.size(), part)) {
    wq::note_too_long(context, qp, w.received + p.payload.size());
    return fail_receive(context, qp, recv,
                        {Syndrome::local_length, "message longer than its receive WQE"},
                        Syndrome::remote_inval_req);
  }
  tpt::SegmentList to{{part.segments, part.count}, wq::recv_access(qp)};
  bool in_entry =
      has(p, flag::first) && has(p, flag::last) && wq::received_in_entry(qp, p.payload.size());
  tpt::Transfer t;
  if (in_entry) {
    t.target = tpt::check_list(context.translator, to, p.payload.size(), t.bad_key);
    wq::fill_entry(context, p.payload);
  } else {
    t = tpt::scatter_bytes(context.translator, p.payload.data(), p.payload.size(), to);
    wq::report_answered_errors(context, qp, wq::SignEnd::target);
  }
  if (t.target.misses_page()) return page_missed(qp);
  if (!t.ok()) return fail_receive(context, qp, recv, t.target, Syndrome::remote_op);
  w.received += p.payload.size();
  if (part.count > 0) context.journal->translated(part.segments[0].key, t.pieces, p.payload.size());
  if (has(p, flag::ieth)) {
    if (Verdict o = invalidate_received(context, qp, recv, p.imm_raw); !o.ok()) return o;
  }
  return has(p, flag::last) ? finish_message(link, qp, p, in_entry) : Verdict::done();
}

// Its payload lies in the buffer of the tag that the message matched.
Verdict receive_in_buffer(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  wq::EngineContext& context = *link.context;
  TagPart part;
  if (Verdict o = tag_part(context, qp, w.received, p.payload.size(), part); !o.ok()) return o;
  tpt::Transfer t = tpt::scatter_bytes(context.translator, p.payload.data() + part.skip,
                                       part.to.bytes, {{&part.to, 1}, wq::recv_access(qp)});
  wq::report_answered_errors(context, qp, wq::SignEnd::target);
  if (t.target.misses_page()) return page_missed(qp);
  if (!t.ok()) return fail_tag(context, qp, {Syndrome::remote_op, t.target.why});
  context.journal->translated(part.to.key, t.pieces, part.to.bytes);
  w.received += p.payload.size();
  if (!has(p, flag::last)) return Verdict::done();
  return finish_tag(context, qp, {completion_of(p), w.received, p.imm_raw, p.solicited});
}

}  // namespace

Verdict finish_message(RoceLink& link, wq::Qp& qp, const RocePacket& p, bool in_entry) noexcept {
  finish_receive(*link.context, qp, link.recv,
                 {completion_of(p), qp.rc->received, p.imm_raw, p.solicited, in_entry});
  return Verdict::done();
}

Verdict receive_part(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  if (!qp.tags) return receive_in_wqe(link, qp, p);
  if (!has(p, flag::first))
    return qp.tags->holding ? receive_in_buffer(link, qp, p) : receive_in_wqe(link, qp, p);
  TagRoute route{};
  const TagMessage message{p.payload, p.payload.size(), has(p, flag::last)};
  if (Verdict o = route_message(*link.context, qp, message, route); !o.ok()) return o;
  if (route == TagRoute::taken) return Verdict::done();
  if (route == TagRoute::buffer) return receive_in_buffer(link, qp, p);
  Verdict o = receive_in_wqe(link, qp, p);
  if (o.ok()) note_received(qp);
  return o;
}

}  // namespace kilim::vhca::transport
