// SPDX-License-Identifier: BSD-3-Clause
// Responder of a connected queue whose peer is on the wire. Adapter's lock held. Never allocates.
#include "vhca/transport/responder_wire.hh"

#include <algorithm>

#include "vhca/core/journal.hh"
#include "vhca/transport/receiver_wire.hh"
#include "vhca/transport/request.hh"
#include "vhca/transport/responder_checks.hh"
#include "vhca/wq/observer.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca {

namespace {

using prm::Syndrome;
using roce::Op;
using roce::aeth::Nak;
using Receiving = RcWire::Receiving;
namespace flag = roce::flag;

constexpr uint32_t packets_in_a_row = 64;  // of answers, until others have their turn

void owe_nak(RoceLink& link, Qp& qp, uint8_t kind, uint8_t value) noexcept {
  RcWire& w = *qp.rc;
  w.nak_owed = w.silent = true;
  w.nak_kind = kind;
  w.nak_value = value;
  w.nak_psn = w.expected_psn;
  link.answering.push(qp);
}

// An acknowledgement behind a READ or an atomic whose answer got lost would say that it has come.
void owe_ack(RoceLink& link, Qp& qp, uint32_t psn) noexcept {
  RcWire& w = *qp.rc;
  if (!w.ack_owed || roce::psn_diff(psn, w.ack_psn) > 0) w.ack_psn = psn;
  w.ack_owed = true;
  link.answering.push(qp);
}

Nak code_of(Syndrome s) noexcept {
  return s == Syndrome::remote_access ? Nak::remote_access
         : s == Syndrome::remote_op   ? Nak::remote_op
                                      : Nak::invalid_request;
}

// Tells the requester that its packet was not executed.
void answer_refusal(RoceLink& link, Qp& qp, const Verdict& o) noexcept {
  if (o.again == Again::rnr)
    owe_nak(link, qp, roce::aeth::rnr, o.rnr_timer & 31);
  else
    owe_nak(link, qp, roce::aeth::nak, static_cast<uint8_t>(code_of(o.syndrome)));
}

Verdict invalid(RoceLink& link, Qp& qp, const char* why) noexcept {
  return refuse(*link.context, qp, {Syndrome::remote_inval_req, why});
}

// The observer's word on a range that the peer names.
Verdict watch_range(RoceLink& link, Qp& qp, const Segment& range, uint8_t right) noexcept {
  if (link.context->observer == nullptr) [[likely]]
    return Verdict::done();
  const prm::lint::RuleRow* row = link.context->observer->arrives(qp, range, right);
  if (row == nullptr) return Verdict::done();
  return refuse(*link.context, qp, {Syndrome::remote_access, row->sentence});
}

Verdict open_write(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if (Verdict o = admit_write(*link.context, qp); !o.ok()) return o;
  w.write_va = p.va;
  w.write_rkey = p.rkey;
  w.write_length = p.length;
  if (p.length > qp.spec.max_message) return invalid(link, qp, "a message beyond the limit");
  Segment range{p.va, p.length, p.rkey, false};
  if (Verdict o = watch_range(link, qp, range, prm::mkey::remote_write); !o.ok()) return o;
  Verdict o = admit_range(*link.context, qp, range, prm::mkey::remote_write);
  return o.ok() ? page_in_range(*link.context, qp, range, prm::mkey::remote_write) : o;
}

Verdict execute_write(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  EngineContext& context = *link.context;
  uint64_t bytes = p.payload.size();
  if (has(p, flag::first)) {
    if (Verdict o = open_write(link, qp, p); !o.ok()) return o;
  }
  bool fits = w.received + bytes <= w.write_length;
  if (!fits || (has(p, flag::last) && w.received + bytes != w.write_length))
    return invalid(link, qp, "a WRITE of another length than it said");
  if (has(p, flag::imm)) {
    if (Verdict o = claim_receive(context, qp, link.recv); !o.ok()) return o;
  }
  if (bytes > 0) {
    Segment range{w.write_va + w.received, bytes, w.write_rkey, false};
    Transfer t = scatter_bytes(context.translator, p.payload.data(), bytes,
                               remote_range(qp, range, prm::mkey::remote_write));
    report_answered_errors(context, qp, SignEnd::target);
    if (t.target.misses_page()) return page_missed(qp);
    if (!t.ok()) return refuse(context, qp, {Syndrome::remote_access, t.target.why});
    context.journal->translated(w.write_rkey, t.pieces, bytes);
  }
  w.received += bytes;
  return has(p, flag::imm) ? finish_message(link, qp, p) : Verdict::done();
}

RcAnswer& new_answer(const Qp& qp, uint32_t psn, uint32_t packets) noexcept {
  RcWire& w = *qp.rc;
  RcAnswer& a = w.answer(0);
  w.next_answer = (w.next_answer + 1) % RcWire::answers_kept;
  a = {};
  a.used = a.pending = true;
  a.first_psn = psn;
  a.packets = packets;
  a.pd = remote_pd(qp);
  return a;
}

Verdict execute_read(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  EngineContext& context = *link.context;
  if (Verdict o = admit_read(context, qp); !o.ok()) return o;
  if (p.length > qp.spec.max_message || w.is_full())
    return invalid(link, qp, "more or longer READs than the queue takes");
  Segment range{p.va, p.length, p.rkey, false};
  if (Verdict o = watch_range(link, qp, range, prm::mkey::remote_read); !o.ok()) return o;
  if (Verdict o = admit_range(context, qp, range, prm::mkey::remote_read); !o.ok()) return o;
  if (Verdict o = page_in_range(context, qp, range, prm::mkey::remote_read); !o.ok()) return o;
  RcAnswer& a = new_answer(qp, p.psn, packets_of(p.length, mtu_bytes(qp)));
  a.va = p.va;
  a.rkey = p.rkey;
  a.length = p.length;
  w.expected_psn = roce::psn_add(w.expected_psn, a.packets - 1);
  link.answering.push(qp);
  return Verdict::done();
}

Verdict execute_atomic(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  EngineContext& context = *link.context;
  Piece word;
  uint64_t old = 0;
  if (Verdict o = admit_atomic(context, qp, p.va); !o.ok()) return o;
  if (w.is_full()) return invalid(link, qp, "more atomics than the queue takes");
  if (Verdict o = watch_range(link, qp, {p.va, 8, p.rkey, false}, prm::mkey::atomic); !o.ok())
    return o;
  if (Verdict o = find_word(context, qp, p.rkey, p.va, word); !o.ok()) return o;
  WordChange change{p.op == Op::fetch_add, p.swap_add, p.compare};
  if (Verdict o = change_word(context, qp, word, change, old); !o.ok()) return o;
  RcAnswer& a = new_answer(qp, p.psn, 1);
  a.atomic = true;
  a.original = old;
  context.journal->translated(p.rkey, 1, 8);
  link.answering.push(qp);
  return Verdict::done();
}

// Whether the packet may come at this place of a message, with this much payload.
const char* order_objection(const Qp& qp, const RocePacket& p) noexcept {
  const RcWire& w = *qp.rc;
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
Verdict aim(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  if (has(p, flag::first)) qp.rc->srqn = p.srqn;
  if (p.srqn != qp.rc->srqn) return invalid(link, qp, "another XRC queue within a message");
  return aim_at_srq(*link.context, qp, p.srqn);
}

Verdict execute(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if (const char* why = order_objection(qp, p)) return invalid(link, qp, why);
  if (qp.type == QpType::xrc_tgt) {
    if (Verdict o = aim(link, qp, p); !o.ok()) return o;
  }
  if (has(p, flag::first)) w.received = 0;
  if (has(p, flag::send)) return receive_part(link, qp, p);
  if (has(p, flag::write)) return execute_write(link, qp, p);
  return p.op == Op::read_request ? execute_read(link, qp, p) : execute_atomic(link, qp, p);
}

SegmentList answer_range(const Qp& qp, const RcAnswer& a, const Segment& s) noexcept {
  return {{&s, 1}, {a.pd, qp.qpn.value(), prm::mkey::remote_read, may_fault(qp, paged_op::read)}};
}

bool may_read_again(RoceLink& link, Qp& qp, const RocePacket& p, const RcAnswer& a) noexcept {
  uint32_t packets = a.packets - roce::psn_distance(a.first_psn, p.psn);
  if (packets_of(p.length, mtu_bytes(qp)) != packets) return false;
  Segment range{p.va, p.length, p.rkey, false};
  uint32_t bad_key = 0;
  Verdict d = check_list(link.context->translator, answer_range(qp, a, range), p.length, bad_key);
  if (d.ok()) return true;
  answer_refusal(link, qp, refuse(*link.context, qp, {Syndrome::remote_access, d.why}));
  // The requester waits for this answer: to what it has not sent it listens to no refusal.
  qp.rc->nak_psn = p.psn;
  return false;
}

// A packet that has been executed comes again: the answer got lost.
void handle_repeat(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if (has(p, flag::send | flag::write)) return owe_ack(link, qp, p.psn);
  link.answering.push(qp);
  bool found = false;
  for (uint32_t i = 0; i < RcWire::answers_kept; i++) {
    RcAnswer& a = w.answer(i);
    int32_t at = roce::psn_diff(p.psn, a.first_psn);
    // What was asked for behind it is asked for again too.
    if (found) a.pending = false;
    if (!a.used || found || at < 0 || at >= static_cast<int32_t>(a.packets)) continue;
    if (a.atomic != has(p, flag::atomic)) continue;
    if (a.pending && at == 0) return;  // it is being answered
    if (!a.atomic && !may_read_again(link, qp, p, a)) return;
    found = a.pending = true;
    a.va = p.va;
    a.rkey = p.rkey;
    a.length = p.length;
    a.packets -= static_cast<uint32_t>(at);
    a.first_psn = p.psn;
    a.next = 0;
  }
}

Op answer_op(const RcAnswer& a) noexcept {
  if (a.atomic) return Op::atomic_acknowledge;
  if (a.packets == 1) return Op::read_only;
  if (a.next == 0) return Op::read_first;
  return a.next + 1 == a.packets ? Op::read_last : Op::read_middle;
}

enum class Went : uint8_t { out, later, refused };

Went send_answer(RoceLink& link, Qp& qp, const RcAnswer& a) noexcept {
  RocePacket p = packet_of(qp, answer_op(a), roce::psn_add(a.first_psn, a.next));
  p.ack_value = roce::aeth::no_credit_count;
  p.msn = qp.rc->msn;
  p.original = a.original;
  uint32_t mtu = mtu_bytes(qp);
  uint64_t offset = uint64_t{a.next} * mtu;
  uint64_t bytes = a.atomic ? 0 : std::min<uint64_t>(mtu, a.length - offset);
  if (bytes > 0) {
    Segment range{a.va + offset, bytes, a.rkey, false};
    Transfer t = gather_bytes(link.context->translator, answer_range(qp, a, range),
                              payload_place(link, p.flags), bytes);
    report_answered_errors(*link.context, qp, SignEnd::source);
    if (t.source.misses_page()) return Went::later;
    if (!t.ok()) return Went::refused;
    link.context->journal->translated(a.rkey, t.pieces, bytes);
  }
  return send_packet(link, qp, p, bytes) ? Went::out : Went::later;
}

bool send_acknowledge(RoceLink& link, Qp& qp) noexcept {
  RcWire& w = *qp.rc;
  uint32_t psn = w.nak_owed ? w.nak_psn : w.ack_psn;
  RocePacket p = packet_of(qp, Op::acknowledge, psn);
  p.ack_kind = w.nak_owed ? w.nak_kind : roce::aeth::ack;
  p.ack_value = w.nak_owed ? w.nak_value : roce::aeth::no_credit_count;
  p.msn = w.msn;
  if (!send_packet(link, qp, p, 0)) return false;
  w.nak_owed = w.ack_owed = false;
  return true;
}

// What the queue waits for behind this packet.
Receiving behind(const RocePacket& p) noexcept {
  return has(p, flag::last)    ? Receiving::nothing
         : has(p, flag::send)  ? Receiving::send
         : has(p, flag::write) ? Receiving::write
                               : Receiving::nothing;
}

// Nobody asks again: a message of which a packet is missing is dropped as a whole.
void handle_unreliable(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if (p.psn != w.expected_psn || has(p, flag::first)) w.receiving = Receiving::nothing;
  w.expected_psn = roce::psn_add(p.psn, 1);
  establish(*link.context, qp);
  bool begun = has(p, flag::first) || w.receiving != Receiving::nothing;
  w.receiving = begun && execute(link, qp, p).ok() ? behind(p) : Receiving::nothing;
}

}  // namespace

void forget_shared(Qp& qp) noexcept {
  if (!qp.rc) return;
  qp.rc->holds_receive = false;
  for (RcAnswer& a : qp.rc->answers) a.used = a.pending = false;
}

void handle_request(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if (!answers(qp)) return;
  if (qp.type == QpType::uc) return handle_unreliable(link, qp, p);
  int32_t ahead = roce::psn_diff(p.psn, w.expected_psn);
  if (ahead < 0) return handle_repeat(link, qp, p);
  if (ahead > 0) {
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

bool send_owed(RoceLink& link, Qp& qp, std::size_t& sent) noexcept {
  RcWire& w = *qp.rc;
  for (uint32_t i = 0; i < RcWire::answers_kept; i++) {
    RcAnswer& a = w.answer(i);
    for (; a.pending; a.pending = a.next < a.packets) {
      if (sent == packets_in_a_row) return false;
      Went went = send_answer(link, qp, a);
      if (went == Went::later) return false;
      sent++;
      a.next++;
      if (a.next == a.packets) a.given = true;
      if (went == Went::out) continue;
      // The memory went away after the READ was accepted.
      uint32_t psn = roce::psn_add(a.first_psn, a.next - 1);
      for (RcAnswer& other : w.answers) other.pending = false;
      answer_refusal(
          link, qp,
          refuse(*link.context, qp, {Syndrome::remote_access, "the memory of a READ is gone"}));
      w.nak_psn = psn;
      break;
    }
  }
  if (!w.nak_owed && !w.ack_owed) return true;
  if (!send_acknowledge(link, qp)) return false;
  sent++;
  return true;
}

}  // namespace kilim::vhca
