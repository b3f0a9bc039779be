// SPDX-License-Identifier: BSD-3-Clause
// Answers and acknowledgements of a connected queue whose peer is on the wire. Adapter's lock held.
// Never allocates.
#include "vhca/transport/responder_answers.hh"

#include <algorithm>

#include "vhca/core/journal.hh"
#include "vhca/transport/request.hh"
#include "vhca/transport/responder_checks.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Syndrome;
using roce::Op;
using roce::aeth::Nak;
namespace flag = roce::flag;

constexpr uint32_t packets_in_a_row = 64;  // of answers, until others have their turn

Nak code_of(Syndrome s) noexcept {
  return s == Syndrome::remote_access ? Nak::remote_access
         : s == Syndrome::remote_op   ? Nak::remote_op
                                      : Nak::invalid_request;
}

tpt::SegmentList answer_range(const wq::Qp& qp, const wq::RcAnswer& a,
                              const tpt::Segment& s) noexcept {
  return {{&s, 1},
          {a.pd, qp.qpn.value(), prm::mkey::remote_read, wq::may_fault(qp, paged_op::read)}};
}

bool may_read_again(RoceLink& link, wq::Qp& qp, const RocePacket& p,
                    const wq::RcAnswer& a) noexcept {
  uint32_t packets = a.packets - roce::psn_distance(a.first_psn, p.psn);
  if (packets_of(p.length, mtu_bytes(qp)) != packets) return false;
  tpt::Segment range{p.va, p.length, p.rkey, false};
  uint32_t bad_key = 0;
  const tpt::SegmentList asked = answer_range(qp, a, range);
  Verdict d = tpt::check_list(link.context->translator, asked, p.length, bad_key);
  if (d.ok()) return true;
  answer_refusal(link, qp, refuse_range(*link.context, qp, asked, d.why));
  // The requester waits for this answer: to what it has not sent it listens to no refusal.
  qp.rc->nak_psn = p.psn;
  return false;
}

Op answer_op(const wq::RcAnswer& a) noexcept {
  if (a.atomic) return Op::atomic_acknowledge;
  if (a.packets == 1) return Op::read_only;
  if (a.next == 0) return Op::read_first;
  return a.next + 1 == a.packets ? Op::read_last : Op::read_middle;
}

enum class Went : uint8_t { out, later, refused };

Went send_answer(RoceLink& link, wq::Qp& qp, const wq::RcAnswer& a) noexcept {
  RocePacket p = packet_of(qp, answer_op(a), roce::psn_add(a.first_psn, a.next));
  p.ack_value = roce::aeth::no_credit_count;
  p.msn = qp.rc->msn;
  p.original = a.original;
  uint32_t mtu = mtu_bytes(qp);
  uint64_t offset = uint64_t{a.next} * mtu;
  uint64_t bytes = a.atomic ? 0 : std::min<uint64_t>(mtu, a.length - offset);
  if (bytes > 0) {
    tpt::Segment range{a.va + offset, bytes, a.rkey, false};
    tpt::Transfer t = tpt::gather_bytes(link.context->translator, answer_range(qp, a, range),
                                        payload_place(link, p.flags), bytes);
    wq::report_answered_errors(*link.context, qp, wq::SignEnd::source);
    if (t.source.misses_page()) return Went::later;
    if (!t.ok()) return Went::refused;
    link.context->journal->translated(a.rkey, t.pieces, bytes);
  }
  return send_packet(link, qp, p, bytes) ? Went::out : Went::later;
}

bool send_acknowledge(RoceLink& link, wq::Qp& qp) noexcept {
  wq::RcWire& w = *qp.rc;
  uint32_t psn = w.nak_owed ? w.nak_psn : w.ack_psn;
  RocePacket p = packet_of(qp, Op::acknowledge, psn);
  p.ack_kind = w.nak_owed ? w.nak_kind : roce::aeth::ack;
  p.ack_value = w.nak_owed ? w.nak_value : roce::aeth::no_credit_count;
  p.msn = w.msn;
  if (!send_packet(link, qp, p, 0)) return false;
  w.nak_owed = w.ack_owed = false;
  return true;
}

}  // namespace

void owe_nak(RoceLink& link, wq::Qp& qp, uint8_t kind, uint8_t value) noexcept {
  wq::RcWire& w = *qp.rc;
  w.nak_owed = w.silent = true;
  w.nak_kind = kind;
  w.nak_value = value;
  w.nak_psn = w.expected_psn;
  link.answering.push(qp);
}

// An acknowledgement behind a READ or an atomic whose answer got lost would say that it has come.
void owe_ack(RoceLink& link, wq::Qp& qp, uint32_t psn) noexcept {
  wq::RcWire& w = *qp.rc;
  if (!w.ack_owed || roce::psn_diff(psn, w.ack_psn) > 0) w.ack_psn = psn;
  w.ack_owed = true;
  link.answering.push(qp);
}

// Tells the requester that its packet was not executed.
void answer_refusal(RoceLink& link, wq::Qp& qp, const Verdict& o) noexcept {
  if (o.again == Again::rnr)
    owe_nak(link, qp, roce::aeth::rnr, o.rnr_timer & 31);
  else
    owe_nak(link, qp, roce::aeth::nak, static_cast<uint8_t>(code_of(o.syndrome)));
}

wq::RcAnswer& new_answer(const wq::Qp& qp, uint32_t psn, uint32_t packets) noexcept {
  wq::RcWire& w = *qp.rc;
  wq::RcAnswer& a = w.answer(0);
  w.next_answer = (w.next_answer + 1) % wq::RcWire::answers_kept;
  a = {};
  a.used = a.pending = true;
  a.first_psn = psn;
  a.packets = packets;
  a.pd = remote_pd(qp);
  return a;
}

// A packet that has been executed comes again: the answer got lost.
void handle_repeat(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  if (has(p, flag::send | flag::write)) return owe_ack(link, qp, p.psn);
  link.answering.push(qp);
  bool found = false;
  for (uint32_t i = 0; i < wq::RcWire::answers_kept; i++) {
    wq::RcAnswer& a = w.answer(i);
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

bool send_owed(RoceLink& link, wq::Qp& qp, std::size_t& sent) noexcept {
  wq::RcWire& w = *qp.rc;
  for (uint32_t i = 0; i < wq::RcWire::answers_kept; i++) {
    wq::RcAnswer& a = w.answer(i);
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
      for (wq::RcAnswer& other : w.answers) other.pending = false;
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

}  // namespace kilim::vhca::transport
