// SPDX-License-Identifier: BSD-3-Clause
// Responder of a connected queue whose peer is on the wire. Adapter's lock held. Never allocates.
#include "vhca/transport/responder_wire.hh"

#include <algorithm>

#include "vhca/core/journal.hh"
#include "vhca/transport/receiver_wire.hh"
#include "vhca/transport/request.hh"
#include "vhca/transport/responder_answers.hh"
#include "vhca/transport/responder_checks.hh"
#include "vhca/wq/observer.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Syndrome;
using roce::Op;
using roce::aeth::Nak;
using Receiving = wq::RcWire::Receiving;
namespace flag = roce::flag;

Verdict invalid(RoceLink& link, wq::Qp& qp, const char* why) noexcept {
  return refuse(*link.context, qp, {Syndrome::remote_inval_req, why});
}

// The observer's word on a range that the peer names.
Verdict watch_range(RoceLink& link, wq::Qp& qp, const tpt::Segment& range, uint8_t right) noexcept {
  if (link.context->observer == nullptr) [[likely]]
    return Verdict::done();
  const prm::lint::RuleRow* row = link.context->observer->arrives(qp, range, right);
  if (row == nullptr) return Verdict::done();
  return refuse(*link.context, qp, {Syndrome::remote_access, row->sentence});
}

Verdict open_write(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  if (Verdict o = admit_write(*link.context, qp); !o.ok()) return o;
  w.write_va = p.va;
  w.write_rkey = p.rkey;
  w.write_length = p.length;
  if (p.length > qp.spec.max_message) return invalid(link, qp, "a message beyond the limit");
  tpt::Segment range{p.va, p.length, p.rkey, false};
  if (Verdict o = watch_range(link, qp, range, prm::mkey::remote_write); !o.ok()) return o;
  // Each packet meets the key by itself (respond_write() says whence this is known), so pages are
  // brought in for a range that is allowed as a whole alone.
  uint32_t bad_key = 0;
  const tpt::SegmentList to = remote_range(qp, range, prm::mkey::remote_write);
  if (!tpt::check_list(link.context->translator, to, p.length, bad_key).ok())
    return Verdict::done();
  return page_in_range(*link.context, qp, range, prm::mkey::remote_write);
}

Verdict execute_write(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  wq::EngineContext& context = *link.context;
  uint64_t bytes = p.payload.size();
  if (has(p, flag::first)) {
    if (Verdict o = open_write(link, qp, p); !o.ok()) return o;
    context.counts.add(TransportCount::rx_write_requests);
  }
  bool fits = w.received + bytes <= w.write_length;
  if (!fits || (has(p, flag::last) && w.received + bytes != w.write_length))
    return invalid(link, qp, "a WRITE of another length than it said");
  tpt::Segment range{w.write_va + w.received, bytes, w.write_rkey, false};
  if (has(p, flag::imm)) {
    if (Verdict o = admit_range(context, qp, range, prm::mkey::remote_write); !o.ok()) return o;
    if (Verdict o = claim_receive(context, qp, link.recv); !o.ok()) return o;
  }
  if (bytes > 0) {
    const tpt::SegmentList to = remote_range(qp, range, prm::mkey::remote_write);
    tpt::Transfer t = tpt::scatter_bytes(context.translator, p.payload.data(), bytes, to);
    wq::report_answered_errors(context, qp, wq::SignEnd::target);
    if (t.target.misses_page()) return page_missed(qp);
    if (!t.ok()) return refuse_range(context, qp, to, t.target.why);
    context.journal->translated(w.write_rkey, t.pieces, bytes);
  }
  w.received += bytes;
  return has(p, flag::imm) ? finish_message(link, qp, p) : Verdict::done();
}

Verdict execute_read(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  wq::EngineContext& context = *link.context;
  if (Verdict o = admit_read(context, qp); !o.ok()) return o;
  if (p.length > qp.spec.max_message || w.is_full())
    return invalid(link, qp, "more or longer READs than the queue takes");
  tpt::Segment range{p.va, p.length, p.rkey, false};
  if (Verdict o = watch_range(link, qp, range, prm::mkey::remote_read); !o.ok()) return o;
  if (Verdict o = admit_range(context, qp, range, prm::mkey::remote_read); !o.ok()) return o;
  if (Verdict o = page_in_range(context, qp, range, prm::mkey::remote_read); !o.ok()) return o;
  context.counts.add(TransportCount::rx_read_requests);
  wq::RcAnswer& a = new_answer(qp, p.psn, packets_of(p.length, mtu_bytes(qp)));
  a.va = p.va;
  a.rkey = p.rkey;
  a.length = p.length;
  w.expected_psn = roce::psn_add(w.expected_psn, a.packets - 1);
  link.answering.push(qp);
  return Verdict::done();
}

Verdict execute_atomic(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  wq::EngineContext& context = *link.context;
  tpt::Piece word{};
  uint64_t old = 0;
  if (Verdict o = admit_atomic(context, qp, p.va); !o.ok()) return o;
  if (w.is_full()) return invalid(link, qp, "more atomics than the queue takes");
  if (Verdict o = watch_range(link, qp, {p.va, 8, p.rkey, false}, prm::mkey::atomic); !o.ok())
    return o;
  if (Verdict o = find_word(context, qp, p.rkey, p.va, word); !o.ok()) return o;
  WordChange change{p.op == Op::fetch_add, p.swap_add, p.compare};
  if (Verdict o = change_word(context, qp, word, change, old); !o.ok()) return o;
  context.counts.add(TransportCount::rx_atomic_requests);
  wq::RcAnswer& a = new_answer(qp, p.psn, 1);
  a.atomic = true;
  a.original = old;
  context.journal->translated(p.rkey, 1, 8);
  link.answering.push(qp);
  return Verdict::done();
}

// Whether the packet may come at this place of a message, with this much payload.
const char* order_objection(const wq::Qp& qp, const RocePacket& p) noexcept {
  const wq::RcWire& w = *qp.rc;
  Receiving kind = has(p, flag::send)    ? Receiving::send
                   : has(p, flag::write) ? Receiving::write
                                         : Receiving::nothing;
  bool first = has(p, flag::first), last = has(p, flag::last);
  if (w.receiving != (first ? Receiving::nothing : kind)) return "a packet out of its message";
  uint32_t mtu = mtu_bytes(qp);
  if (p.payload.size() > mtu || (!last && p.payload.size() != mtu) ||
      (last && !first && p.payload.empty()))
    return "a packet of the wrong length";
  return nullptr;
}

// Each packet to an XRC target names its shared queue, all of a message the same.
Verdict aim(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  if (has(p, flag::first)) qp.rc->srqn = p.srqn;
  if (p.srqn != qp.rc->srqn) return invalid(link, qp, "another XRC queue within a message");
  return aim_at_srq(*link.context, qp, p.srqn);
}

Verdict execute(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  if (const char* why = order_objection(qp, p)) return invalid(link, qp, why);
  if (qp.type == QpType::xrc_tgt) {
    if (Verdict o = aim(link, qp, p); !o.ok()) return o;
  }
  if (has(p, flag::first)) w.received = 0;
  if (has(p, flag::send)) return receive_part(link, qp, p);
  if (has(p, flag::write)) return execute_write(link, qp, p);
  return p.op == Op::read_request ? execute_read(link, qp, p) : execute_atomic(link, qp, p);
}

// What the queue waits for behind this packet.
Receiving behind(const RocePacket& p) noexcept {
  return has(p, flag::last)    ? Receiving::nothing
         : has(p, flag::send)  ? Receiving::send
         : has(p, flag::write) ? Receiving::write
                               : Receiving::nothing;
}

// Nobody asks again: a message of which a packet is missing is dropped as a whole.
void handle_unreliable(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  if (p.psn != w.expected_psn || has(p, flag::first)) w.receiving = Receiving::nothing;
  w.expected_psn = roce::psn_add(p.psn, 1);
  establish(*link.context, qp);
  bool begun = has(p, flag::first) || w.receiving != Receiving::nothing;
  w.receiving = begun && execute(link, qp, p).ok() ? behind(p) : Receiving::nothing;
}

}  // namespace

void forget_shared(wq::Qp& qp) noexcept {
  if (!qp.rc) return;
  qp.rc->holds_receive = false;
  for (wq::RcAnswer& a : qp.rc->answers) a.used = a.pending = false;
}

void handle_request(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  if (!answers(qp)) return;
  if (qp.type == QpType::uc) return handle_unreliable(link, qp, p);
  int32_t ahead = roce::psn_diff(p.psn, w.expected_psn);
  if (ahead < 0) {
    link.context->counts.add(TransportCount::duplicate_request);
    return handle_repeat(link, qp, p);
  }
  if (ahead > 0) {
    link.context->counts.add(TransportCount::out_of_sequence);
    if (!w.silent) owe_nak(link, qp, roce::aeth::nak, static_cast<uint8_t>(Nak::sequence));
    return;
  }
  w.silent = false;
  w.nak_owed = false;  // what was not sent yet is out of date
  establish(*link.context, qp);
  if (Verdict o = execute(link, qp, p); !o.ok()) return answer_refusal(link, qp, o);
  w.expected_psn = roce::psn_add(w.expected_psn, 1);
  w.msn = roce::psn_add(w.msn, has(p, flag::last));
  w.receiving = behind(p);
  if (p.ack_request && has(p, flag::send | flag::write)) owe_ack(link, qp, p.psn);
}

}  // namespace kilim::vhca::transport
