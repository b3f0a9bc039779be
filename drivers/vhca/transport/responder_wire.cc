// SPDX-License-Identifier: BSD-3-Clause
// Responder of an RC queue whose peer is on the wire. Adapter's lock held. Never allocates.
#include "vhca/transport/responder_wire.hh"

#include <algorithm>
#include <utility>

#include "vhca/hca/dma.hh"
#include "vhca/hca/journal.hh"
#include "vhca/tpt/umr_apply.hh"
#include "vhca/transport/requester.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca {

namespace {

using prm::Syndrome;
using roce::Op;
using roce::aeth::Nak;
using Receiving = RcWire::Receiving;
namespace flag = roce::flag;

constexpr uint32_t packets_in_a_row = 64;  // of answers, until others have their turn

bool has(const RocePacket& p, uint16_t f) noexcept {
  return (p.flags & f) != 0;
}

void owe_nak(RoceLink& link, Qp& qp, uint8_t kind, uint8_t value) noexcept {
  RcWire& w = *qp.rc;
  w.nak_owed = w.silent = true;
  w.nak_kind = kind;
  w.nak_value = value;
  w.nak_psn = w.expected_psn;
  link.answering.push(qp);
}

bool not_ready(RoceLink& link, Qp& qp) noexcept {
  owe_nak(link, qp, roce::aeth::rnr, qp.attr.min_rnr_timer & 31);
  return false;
}

// A request that used up no receive WQE is refused: the queue goes to ERR and says so by an event.
bool refuse(RoceLink& link, Qp& qp, Nak code, const char* why) noexcept {
  bool access = code == Nak::remote_access;
  link.works->journal->error(qp.qpn, access ? Syndrome::remote_access : Syndrome::remote_inval_req,
                             0, qp.rq.ci, why);
  owe_nak(link, qp, roce::aeth::nak, static_cast<uint8_t>(code));
  to_error(*link.works, qp);
  raise(*link.works, qp, access ? event::qp_access_err : event::qp_req_err);
  return false;
}

// The receive WQE of the message fails.
bool fail_receive(RoceLink& link, Qp& qp, Syndrome mine, Nak theirs, const char* why) noexcept {
  owe_nak(link, qp, roce::aeth::nak, static_cast<uint8_t>(theirs));
  bool taken = std::exchange(qp.rc->holds_receive, false);
  (taken ? fail_taken_recv : fail_recv)(*link.works, qp, link.recv.index, mine, why);
  return false;
}

// Another queue's message may come between the packets of this one: what it receives into is its
// own from the first one on.
void hold_receive(RoceLink& link, Qp& qp) noexcept {
  qp.rc->held = link.recv;
  qp.rc->holds_receive = true;
  consume_recv(*link.works, qp);
}

bool take_receive(RoceLink& link, Qp& qp) noexcept {
  if (qp.rc->holds_receive) {
    link.recv = qp.rc->held;
    return true;
  }
  switch (peek_recv(*link.works, qp, link.recv)) {
    case RecvTake::ok:
      if (qp.srq != nullptr) hold_receive(link, qp);
      return true;
    case RecvTake::empty:
      return not_ready(link, qp);
    case RecvTake::fault:
      break;
  }
  owe_nak(link, qp, roce::aeth::nak, static_cast<uint8_t>(Nak::remote_op));
  fatal_qp(*link.works, qp, "the receive ring is gone");
  return false;
}

bool finish_receive(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if (!std::exchange(w.holds_receive, false)) consume_recv(*link.works, qp);
  RecvCompletion done;
  bool write = has(p, flag::write);
  done.op = write                ? prm::CqeOpcode::resp_wr_imm
            : has(p, flag::imm)  ? prm::CqeOpcode::resp_send_imm
            : has(p, flag::ieth) ? prm::CqeOpcode::resp_send_inv
                                 : prm::CqeOpcode::resp_send;
  done.wqe_index = link.recv.index;
  done.bytes = static_cast<uint32_t>(w.received);
  done.imm_raw = has(p, flag::imm | flag::ieth) ? p.imm_raw : 0;
  done.remote_qpn = qp.attr.dest_qpn.value();
  done.solicited = p.solicited;
  if (!complete_recv(*link.works, qp, done))
    fatal_qp(*link.works, qp, "the CQ of a receive queue is in error");
  return true;
}

// Its payload lies in the receive WQE behind what came before.
bool execute_send(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if (!take_receive(link, qp)) return false;
  RecvWqe& recv = link.recv;
  SubList part;
  if (!cut_list({recv.segments.data(), recv.count}, w.received, p.payload.size(), part))
    return fail_receive(link, qp, Syndrome::local_length, Nak::invalid_request,
                        "message longer than its receive WQE");
  SegmentList to{{part.segments, part.count}, recv_access(qp)};
  Transfer t = scatter_bytes(link.works->translator, p.payload.data(), p.payload.size(), to);
  if (!t.ok())
    return fail_receive(link, qp, Syndrome::local_prot, Nak::remote_op, deny_name(t.target));
  w.received += p.payload.size();
  if (part.count > 0)
    link.works->journal->translated(part.segments[0].key, t.pieces, p.payload.size());
  if (has(p, flag::ieth)) {
    uint32_t key = be32::from_raw(p.imm_raw).host();
    Deny d = invalidate_key(*link.works->keys, key, qp.spec.pd, qp.qpn.value());
    if (d != Deny::none)
      return fail_receive(link, qp, Syndrome::local_access, Nak::remote_access, deny_name(d));
    link.works->journal->invalidate(key);
  }
  return !has(p, flag::last) || finish_receive(link, qp, p);
}

SegmentList remote_range(const Qp& qp, const Segment& s, uint8_t right) noexcept {
  return {{&s, 1}, {qp.spec.pd, qp.qpn.value(), right}};
}

bool open_write(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if ((qp.attr.access & access::remote_write) == 0)
    return refuse(link, qp, Nak::invalid_request, "the queue takes no RDMA WRITE");
  w.write_va = p.va;
  w.write_rkey = p.rkey;
  w.write_length = p.length;
  if (p.length > max_message_bytes)
    return refuse(link, qp, Nak::invalid_request, "a message beyond the limit");
  Segment range{p.va, p.length, p.rkey, false};
  uint32_t bad_key = 0;
  Deny d = check_list(link.works->translator, remote_range(qp, range, prm::mkey::remote_write),
                      p.length, bad_key);
  return d == Deny::none || refuse(link, qp, Nak::remote_access, deny_name(d));
}

bool execute_write(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  uint64_t bytes = p.payload.size();
  if (has(p, flag::first) && !open_write(link, qp, p)) return false;
  bool fits = w.received + bytes <= w.write_length;
  if (!fits || (has(p, flag::last) && w.received + bytes != w.write_length))
    return refuse(link, qp, Nak::invalid_request, "a WRITE of another length than it said");
  if (has(p, flag::imm) && !take_receive(link, qp)) return false;
  if (bytes > 0) {
    Segment range{w.write_va + w.received, bytes, w.write_rkey, false};
    Transfer t = scatter_bytes(link.works->translator, p.payload.data(), bytes,
                               remote_range(qp, range, prm::mkey::remote_write));
    if (!t.ok()) return refuse(link, qp, Nak::remote_access, deny_name(t.target));
    link.works->journal->translated(w.write_rkey, t.pieces, bytes);
  }
  w.received += bytes;
  return !has(p, flag::imm) || finish_receive(link, qp, p);
}

RcAnswer& new_answer(RcWire& w, uint32_t psn, uint32_t packets) noexcept {
  RcAnswer& a = w.answer(0);
  w.next_answer = (w.next_answer + 1) % RcWire::answers_kept;
  a = {};
  a.used = a.pending = true;
  a.first_psn = psn;
  a.packets = packets;
  return a;
}

bool readable(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  Segment range{p.va, p.length, p.rkey, false};
  uint32_t bad_key = 0;
  Deny d = check_list(link.works->translator, remote_range(qp, range, prm::mkey::remote_read),
                      p.length, bad_key);
  return d == Deny::none || refuse(link, qp, Nak::remote_access, deny_name(d));
}

bool execute_read(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if ((qp.attr.access & access::remote_read) == 0 || qp.attr.max_dest_rd_atomic == 0)
    return refuse(link, qp, Nak::invalid_request, "the queue takes no RDMA READ");
  if (p.length > max_message_bytes || w.answer(0).pending)
    return refuse(link, qp, Nak::invalid_request, "more or longer READs than the queue takes");
  if (!readable(link, qp, p)) return false;
  RcAnswer& a = new_answer(w, p.psn, packets_of(p.length, mtu_bytes(qp)));
  a.va = p.va;
  a.rkey = p.rkey;
  a.length = p.length;
  w.expected_psn = roce::psn_add(w.expected_psn, a.packets - 1);
  link.answering.push(qp);
  return true;
}

bool execute_atomic(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if ((qp.attr.access & access::remote_atomic) == 0 || qp.attr.max_dest_rd_atomic == 0)
    return refuse(link, qp, Nak::invalid_request, "the queue takes no atomics");
  if (p.va % 8 != 0 || w.answer(0).pending)
    return refuse(link, qp, Nak::invalid_request, "an atomic on an unaligned address");
  Walk walk;
  Piece piece;
  Access need{qp.spec.pd, qp.qpn.value(), prm::mkey::atomic};
  Works& works = *link.works;
  Deny d = walk.open(*works.keys, works.translator.max_indirection, p.rkey, p.va, 8, need);
  if (d == Deny::none && !walk.next(piece)) d = walk.denied();
  if (d == Deny::none && (piece.bytes < 8 || piece.va % 8 != 0)) d = Deny::bounds;
  uint64_t old = 0;
  if (d == Deny::none) {
    bool ok = p.op == Op::fetch_add
                  ? dma::fetch_add(Va{piece.va}, p.swap_add, old)
                  : dma::compare_exchange(Va{piece.va}, p.compare, p.swap_add, old);
    if (!ok) d = Deny::fault;
  }
  if (d != Deny::none) return refuse(link, qp, Nak::remote_access, deny_name(d));
  RcAnswer& a = new_answer(w, p.psn, 1);
  a.atomic = true;
  a.original = old;
  works.journal->translated(p.rkey, 1, 8);
  link.answering.push(qp);
  return true;
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

bool execute(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if (const char* why = order_objection(qp, p)) return refuse(link, qp, Nak::invalid_request, why);
  if (has(p, flag::first)) w.received = 0;
  if (has(p, flag::send)) return execute_send(link, qp, p);
  if (has(p, flag::write)) return execute_write(link, qp, p);
  return p.op == Op::read_request ? execute_read(link, qp, p) : execute_atomic(link, qp, p);
}

// A packet that has been executed comes again: the answer got lost.
void take_again(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  link.answering.push(qp);
  if (has(p, flag::send | flag::write)) {
    w.ack_owed = true;
    return;
  }
  bool found = false;
  for (uint32_t i = 0; i < RcWire::answers_kept; i++) {
    RcAnswer& a = w.answer(i);
    int32_t at = roce::psn_diff(p.psn, a.first_psn);
    // What was asked for behind it is asked for again too.
    if (found) a.pending = false;
    if (!a.used || found || at < 0 || at >= static_cast<int32_t>(a.packets)) continue;
    if (a.atomic != has(p, flag::atomic)) continue;
    if (a.pending && at == 0) return;  // it is being answered
    if (!a.atomic &&
        (packets_of(p.length, mtu_bytes(qp)) + static_cast<uint32_t>(at) != a.packets ||
         !readable(link, qp, p)))
      return;
    found = a.pending = true;
    a.va = p.va;
    a.rkey = p.rkey;
    a.length = p.length;
    a.packets -= static_cast<uint32_t>(at);
    a.first_psn = p.psn;
    a.next = 0;
  }
}

void establish(RoceLink& link, Qp& qp) noexcept {
  if (qp.established || qp.state != QpState::rtr) return;
  qp.established = true;
  raise(*link.works, qp, event::comm_est);
}

Op answer_op(const RcAnswer& a) noexcept {
  if (a.atomic) return Op::atomic_acknowledge;
  if (a.packets == 1) return Op::read_only;
  if (a.next == 0) return Op::read_first;
  return a.next + 1 == a.packets ? Op::read_last : Op::read_middle;
}

enum class Went : uint8_t { out, full, refused };

Went send_answer(RoceLink& link, Qp& qp, const RcAnswer& a) noexcept {
  RocePacket p;
  p.op = answer_op(a);
  p.flags = roce::op_row(static_cast<uint8_t>(p.op))->flags;
  p.psn = roce::psn_add(a.first_psn, a.next);
  p.ack_value = roce::aeth::no_credit_count;
  p.msn = qp.rc->msn;
  p.original = a.original;
  uint32_t mtu = mtu_bytes(qp);
  uint64_t offset = uint64_t{a.next} * mtu;
  uint64_t bytes = a.atomic ? 0 : std::min<uint64_t>(mtu, a.length - offset);
  if (bytes > 0) {
    Segment range{a.va + offset, bytes, a.rkey, false};
    Transfer t =
        gather_bytes(link.works->translator, remote_range(qp, range, prm::mkey::remote_read),
                     payload_place(link, p.flags), bytes);
    if (!t.ok()) return Went::refused;
    link.works->journal->translated(a.rkey, t.pieces, bytes);
  }
  return send_packet(link, qp, p, bytes) ? Went::out : Went::full;
}

bool send_acknowledge(RoceLink& link, Qp& qp) noexcept {
  RcWire& w = *qp.rc;
  RocePacket p;
  p.op = Op::acknowledge;
  p.flags = roce::op_row(static_cast<uint8_t>(p.op))->flags;
  p.psn = w.nak_owed ? w.nak_psn : roce::psn_add(w.expected_psn, roce::psn_mask);
  p.ack_kind = w.nak_owed ? w.nak_kind : roce::aeth::ack;
  p.ack_value = w.nak_owed ? w.nak_value : roce::aeth::no_credit_count;
  p.msn = w.msn;
  if (!send_packet(link, qp, p, 0)) return false;
  w.nak_owed = w.ack_owed = false;
  return true;
}

}  // namespace

void take_request(RoceLink& link, Qp& qp, const RocePacket& p) noexcept {
  RcWire& w = *qp.rc;
  if (qp.state != QpState::rtr && qp.state != QpState::rts && qp.state != QpState::sqd) return;
  int32_t ahead = roce::psn_diff(p.psn, w.expected_psn);
  if (ahead < 0) return take_again(link, qp, p);
  if (ahead > 0) {
    if (!w.silent) owe_nak(link, qp, roce::aeth::nak, static_cast<uint8_t>(Nak::sequence));
    return;
  }
  w.silent = false;
  w.nak_owed = false;  // what was not sent yet is out of date
  establish(link, qp);
  if (!execute(link, qp, p)) return;
  w.expected_psn = roce::psn_add(w.expected_psn, 1);
  bool last = has(p, flag::last);
  w.msn = roce::psn_add(w.msn, last);
  w.receiving = last                  ? Receiving::nothing
                : has(p, flag::send)  ? Receiving::send
                : has(p, flag::write) ? Receiving::write
                                      : Receiving::nothing;
  if (!p.ack_request || !has(p, flag::send | flag::write)) return;
  w.ack_owed = true;
  link.answering.push(qp);
}

bool send_owed(RoceLink& link, Qp& qp) noexcept {
  RcWire& w = *qp.rc;
  uint32_t sent = 0;
  for (uint32_t i = 0; i < RcWire::answers_kept; i++) {
    RcAnswer& a = w.answer(i);
    for (; a.pending; a.pending = a.next < a.packets) {
      if (sent++ == packets_in_a_row) return false;
      Went went = send_answer(link, qp, a);
      if (went == Went::full) return false;
      a.next++;
      if (went == Went::out) continue;
      // The memory went away after the READ was accepted.
      uint32_t psn = roce::psn_add(a.first_psn, a.next - 1);
      for (RcAnswer& other : w.answers) other.pending = false;
      refuse(link, qp, Nak::remote_access, "the memory of a READ is gone");
      w.nak_psn = psn;
      break;
    }
  }
  return !(w.nak_owed || w.ack_owed) || send_acknowledge(link, qp);
}

}  // namespace kilim::vhca
