// SPDX-License-Identifier: BSD-3-Clause
// Requester of a connected queue whose peer is on the wire. Adapter's lock held. Never allocates.
#include "vhca/transport/requester_wire.hh"

#include <algorithm>

#include "vhca/core/journal.hh"
#include "vhca/transport/completer_wire.hh"
#include "vhca/transport/dynamic.hh"
#include "vhca/transport/rendezvous.hh"
#include "vhca/transport/requester.hh"
#include "vhca/transport/weak_wire.hh"
#include "vhca/wq/observer.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Syndrome;
using roce::Op;
using Kind = RequestKind;

constexpr uint32_t window_packets = 128;
constexpr uint32_t ack_every = 16;

bool unreliable(const wq::Qp& qp) noexcept {
  return qp.type == QpType::uc;
}

void pause(RoceLink& link, wq::Qp& qp, uint64_t ns) noexcept {
  qp.rc->pause_until_ns = link.context->now_ns + ns;
  link.timed.push(qp);
}

// Whether the queue waits for a page of its own memory. One that never comes is a protection error.
bool waits_for_page(RoceLink& link, wq::Qp& qp, Verdict& memory) noexcept {
  if (!memory.misses_page()) return false;
  if (qp.stalls >= most_stalls) {
    memory = pages_do_not_stay;
    return false;
  }
  qp.stalls++;
  pause(link, qp, page_stall_ns);
  return true;
}

// Whether packets leave although the queue's own memory is refused: a card meets that when it makes
// the packet, so the ones in front have left: four of a WRITE whose segment is longer than its
// region (a ConnectX-6 with firmware 20.40.1000, in unionxic/rdma-fault-characterization,
// counter_mapping_findings.md). The packet that cannot be made fails the message then.
bool front_leaves(const RoceLink& link, const wq::Qp& qp, const RequestRow& row,
                  const RequestData& ask) noexcept {
  if (is_answered(row.kind)) return false;
  const tpt::SegmentList list = own_memory(qp, row.kind, ask);
  const uint64_t front =
      tpt::allowed_bytes(link.context->translator, list, ask.bytes, mtu_bytes(qp));
  return front > 0 && front < ask.bytes;
}

// Whether the next request is one that fails by itself: that happens in its place, here.
bool strikes_next(const wq::EngineContext& context) noexcept {
  return context.failing.strikes_next(context.journal->count(Journal::Kind::wqe));
}

// Puts a message behind the others; false: not now.
bool begin_message(RoceLink& link, wq::Qp& qp, wq::RcMessage m) noexcept {
  wq::RcWire& w = *qp.rc;
  m.first_psn = w.new_psn;
  m.packets = packets_of(m.bytes, mtu_bytes(qp));
  if (w.packets_to(w.new_psn) + m.packets > roce::most_packets) return false;
  if (m.answered() && w.answers_open >= qp.attr.max_rd_atomic) return false;
  w.at(w.count) = m;
  if (w.count++ == 0) note_progress(link, qp);
  w.answers_open = static_cast<uint8_t>(w.answers_open + m.answered());
  w.new_psn = roce::psn_add(w.new_psn, m.packets);
  qp.retrying = true;  // something is under way
  qp.stalls = 0;
  return true;
}

// What a tag that matched has to fetch, or tells the sender.
RequesterStep start_rendezvous(RoceLink& link, wq::Qp& qp) noexcept {
  RequestData ask;
  const RequestRow& row = rendezvous_request(qp, ask, link.wqe);
  Verdict o = check_rendezvous(*link.context, qp, row, ask);
  if (waits_for_page(link, qp, o)) return RequesterStep::idle;
  if (o.failed() && qp.rc->count == 0) {
    qp.stalls = 0;
    fail_rendezvous(*link.context, qp, o);
    return RequesterStep::down;
  }
  wq::RcMessage m;
  m.kind = row.kind;
  m.rendezvous = true;
  m.opcode = link.wqe.opcode;
  m.wqebbs = 0;
  m.bytes = ask.bytes;
  if (!o.ok() || !begin_message(link, qp, m)) return RequesterStep::idle;
  qp.tags->under_way = true;
  return RequesterStep::sent;
}

// What the next WQE of a queue in a weak order is; what the observer refuses stays in its place.
wq::SendClass next_class(RoceLink& link, wq::Qp& qp) noexcept {
  wq::SendWqe& wqe = link.wqe;
  if (qp.rc->next_ci == qp.sq.pi || qp.weak->full()) return wq::SendClass::other;
  if (wq::decode_send_at(qp, qp.rc->next_ci, wqe) != wq::Decode::ok) return wq::SendClass::other;
  if (qp.watched != nullptr && link.context->observer->executes(qp, wqe) != nullptr)
    return wq::SendClass::other;
  if (strikes_next(*link.context)) return wq::SendClass::other;
  return wq::send_class(wqe.opcode);
}

RequesterStep begin_weakly(RoceLink& link, wq::Qp& qp) noexcept;

// In its place, when nothing is under way.
RequesterStep begin_here(RoceLink& link, wq::Qp& qp) noexcept {
  const uint16_t place = qp.rc->next_ci;
  change_keys(link, qp);
  if (qp.state != QpState::rts) return RequesterStep::down;
  // NOPs went with what was late (posted_nops.hh): the next one is another.
  if (qp.rc->next_ci == qp.sq.pi) return RequesterStep::idle;
  if (qp.rc->next_ci != place) return begin_weakly(link, qp);
  return qp.rc->count == 0 && qp.weak->empty() ? RequesterStep::local : RequesterStep::idle;
}

// The WQE in link.wqe, as a message.
RequesterStep begin_request_weakly(RoceLink& link, wq::Qp& qp) noexcept {
  wq::RcWire& w = *qp.rc;
  const wq::SendWqe& wqe = link.wqe;
  const wq::FenceWaits fence = wq::fence_waits(wqe.fm_ce_se);
  if (fence.answers && w.answers_open > 0) return RequesterStep::idle;
  if (fence.messages && w.count > 0) return RequesterStep::idle;
  if (fence.changes) change_keys(link, qp);
  if (qp.state != QpState::rts) return RequesterStep::down;
  if (qp.weak->has_failed()) return RequesterStep::idle;
  RequestData ask;
  const RequestRow* row = request_row(qp.type, wqe.opcode);
  if (row == nullptr || !read_request(qp, *row, wqe, ask).ok()) return begin_here(link, qp);
  Verdict memory = check_own_memory(*link.context, qp, *row, ask);
  if (waits_for_page(link, qp, memory)) return RequesterStep::idle;
  if (!memory.ok() && !front_leaves(link, qp, *row, ask)) {
    qp.stalls = 0;
    note_refused(link, qp, memory);
    return qp.state == QpState::rts ? RequesterStep::idle : RequesterStep::down;
  }
  wq::RcMessage m{row->kind,  wqe.signaled(), wqe.wants_event(), false,
                  wqe.opcode, wqe.index,      wqe.wqebbs};
  m.bytes = ask.bytes;
  if (!begin_message(link, qp, m)) return RequesterStep::idle;
  note_under_way(link, qp);
  // As if its packets were lost, and sent again when keys have changed.
  if (!m.answered() && qp.weak->is_late(qp.type, wq::SendClass::message)) {
    while (next_class(link, qp) == wq::SendClass::change && delay_change(link, qp)) {
    }
  }
  return qp.state == QpState::rts ? RequesterStep::sent : RequesterStep::down;
}

// Takes WQEs up to the next message.
RequesterStep begin_weakly(RoceLink& link, wq::Qp& qp) noexcept {
  wq::SendClass what = next_class(link, qp);
  while (what == wq::SendClass::change) {
    if (!delay_change(link, qp)) return RequesterStep::idle;
    if (qp.state != QpState::rts) return RequesterStep::down;
    if (qp.rc->next_ci == qp.sq.pi || qp.weak->full()) return RequesterStep::idle;
    what = next_class(link, qp);
  }
  const bool message = what == wq::SendClass::message || what == wq::SendClass::answer;
  return message ? begin_request_weakly(link, qp) : begin_here(link, qp);
}

// Takes the next WQE off the ring as a message.
RequesterStep begin_next_message(RoceLink& link, wq::Qp& qp) noexcept {
  wq::RcWire& w = *qp.rc;
  const bool stops = qp.state != QpState::rts || qp.draining;
  if (stops || w.count == wq::RcWire::messages) return RequesterStep::idle;
  if (rendezvous_due(qp) && !qp.tags->under_way) return start_rendezvous(link, qp);
  if (w.next_ci == qp.sq.pi) return RequesterStep::idle;
  if (weak_on_wire(qp) != nullptr) [[unlikely]]
    return qp.weak->full() || qp.weak->has_failed() ? RequesterStep::idle : begin_weakly(link, qp);
  wq::SendWqe& wqe = link.wqe;
  const RequestRow* row = nullptr;
  RequestData ask;
  if (wq::decode_send_at(qp, w.next_ci, wqe) == wq::Decode::ok)
    row = request_row(qp.type, wqe.opcode);
  // What the observer refuses, who executes it here is told as well (exec/send_queue.cc).
  if (row != nullptr && qp.watched != nullptr &&
      link.context->observer->executes(qp, wqe) != nullptr)
    row = nullptr;
  if (strikes_next(*link.context)) row = nullptr;
  // What the queue's own side objects to, exec_request() finds as well and fails the WQE with.
  Verdict memory;
  bool read = row != nullptr && read_request(qp, *row, wqe, ask).ok();
  if (read) memory = check_own_memory(*link.context, qp, *row, ask);
  if (waits_for_page(link, qp, memory)) return RequesterStep::idle;
  const bool dynamic = qp.type == QpType::dci;
  const bool leaves = memory.ok() || front_leaves(link, qp, *row, ask);
  if (!read || !leaves || (dynamic && !goes_out(link, qp, wqe, ask)))
    return w.count == 0 ? RequesterStep::local : RequesterStep::idle;
  if (dynamic && !connected_to(qp, ask)) {
    if (w.count > 0) return RequesterStep::idle;
    connect_to(link, qp, ask);
  }
  bool fenced = (wqe.fm_ce_se >> 5) != 0;
  if (fenced && w.answers_open > 0) return RequesterStep::idle;
  wq::RcMessage m{row->kind,  wqe.signaled(), wqe.wants_event(), false,
                  wqe.opcode, wqe.index,      wqe.wqebbs};
  m.bytes = ask.bytes;
  if (!begin_message(link, qp, m)) return RequesterStep::idle;
  link.context->journal->wqe(qp.qpn, wqe.index, wqe.opcode, static_cast<uint8_t>(wqe.ds));
  w.next_ci = static_cast<uint16_t>(w.next_ci + wqe.wqebbs);
  return RequesterStep::sent;
}

wq::RcMessage& message_of(wq::RcWire& w, uint32_t psn) noexcept {
  for (uint32_t i = 0; i + 1 < w.count; i++) {
    wq::RcMessage& m = w.at(i);
    uint32_t end = roce::psn_add(m.first_psn, m.packets);
    if (roce::psn_distance(w.una_psn, psn) < roce::psn_distance(w.una_psn, end)) return m;
  }
  return w.at(w.count - 1);
}

Op op_of(const RequestRow& row, uint32_t packet, uint32_t packets) noexcept {
  if (packets == 1) return row.only;
  if (packet == 0) return row.first;
  return packet + 1 == packets ? row.last : row.middle;
}

// The packet at send_psn. A READ asks for all that is still to come in one packet.
RequesterStep send_packet_of(RoceLink& link, wq::Qp& qp, const wq::RcMessage& m) noexcept {
  wq::RcWire& w = *qp.rc;
  RequestData ask;
  if (!reread(link, qp, m, ask)) return RequesterStep::down;
  const RequestRow& row = *request_row(qp.type, m.opcode);
  uint32_t mtu = mtu_bytes(qp);
  uint32_t index = roce::psn_distance(m.first_psn, w.send_psn);
  uint64_t offset = uint64_t{index} * mtu;
  uint64_t bytes = m.answered() ? 0 : std::min<uint64_t>(mtu, m.bytes - offset);
  bool last = m.answered() || index + 1 == m.packets;
  RocePacket p = packet_of(qp, op_of(row, index, m.packets), w.send_psn);
  if (qp.type == QpType::dci) announce(qp, p);
  p.ack_request = !unreliable(qp) && (last || index % ack_every == ack_every - 1);
  p.srqn = ask.srqn;
  p.solicited = last && link.wqe.solicited();
  p.va = ask.remote_addr + (m.kind == Kind::read ? offset : 0);
  p.rkey = ask.rkey;
  p.length = static_cast<uint32_t>(m.kind == Kind::read ? m.bytes - offset : m.bytes);
  p.swap_add = ask.swap_add;
  p.compare = ask.compare;
  p.imm_raw = link.wqe.imm_raw;
  SubList part;
  bool whole = cut_list({ask.data.segments.data(), ask.data.count}, offset, bytes, part);
  tpt::SegmentList from{{part.segments, part.count}, own_memory(qp, m.kind, ask).need};
  tpt::Transfer t;
  if (whole)
    t = tpt::gather_bytes(link.context->translator, from, payload_place(link, p.flags), bytes);
  wq::report_sent_errors(*link.context, qp);
  if (t.source.misses_page()) {
    pause(link, qp, page_stall_ns);
    return RequesterStep::idle;
  }
  if (bytes > 0 && (!whole || !t.ok())) {
    // Completions come in order: those before it are waited for, then it fails.
    if (&m != &w.at(0)) return RequesterStep::idle;
    constexpr Verdict cut = {Syndrome::local_prot, "the memory of a message under way is gone"};
    fail_oldest(link, qp, t.source.ok() ? cut : t.source);
    return RequesterStep::down;
  }
  if (!send_packet(link, qp, p, bytes)) return RequesterStep::idle;
  w.send_psn = m.answered() ? roce::psn_add(m.first_psn, m.packets) : roce::psn_add(w.send_psn, 1);
  if (w.packets_to(w.send_psn) > w.packets_to(w.sent_psn)) w.sent_psn = w.send_psn;
  if (unreliable(qp) && last) complete_oldest(link, qp);
  return RequesterStep::sent;
}

}  // namespace

bool reread(RoceLink& link, wq::Qp& qp, const wq::RcMessage& m, RequestData& ask) noexcept {
  if (m.rendezvous) {
    rendezvous_request(qp, ask, link.wqe);
    return true;
  }
  const RequestRow* row = request_row(qp.type, m.opcode);
  bool ok = wq::decode_send_at(qp, m.sq_index, link.wqe) == wq::Decode::ok &&
            link.wqe.opcode == m.opcode && read_request(qp, *row, link.wqe, ask).ok() &&
            ask.bytes == m.bytes;
  if (!ok) wq::fatal_qp(*link.context, qp, "a WQE under way has changed");
  return ok;
}

void after_local(wq::Qp& qp) noexcept {
  qp.rc->next_ci = qp.sq.ci;
}

void start_requester(wq::Qp& qp) noexcept {
  wq::RcWire& w = *qp.rc;
  w.una_psn = w.send_psn = w.new_psn = w.sent_psn = qp.attr.sq_psn & roce::psn_mask;
  w.next_ci = qp.sq.ci;
  w.head = w.count = 0;
  w.answers_open = 0;
}

RequesterStep send_next(RoceLink& link, wq::Qp& qp) noexcept {
  wq::RcWire& w = *qp.rc;
  bool runs = qp.state == QpState::rts || (qp.state == QpState::sqd && w.count > 0);
  if (!runs) return RequesterStep::down;
  if (w.pause_until_ns != 0) return RequesterStep::idle;
  if (!unreliable(qp) && w.packets_to(w.send_psn) >= window_packets) return RequesterStep::idle;
  if (w.send_psn == w.new_psn) {
    RequesterStep taken = begin_next_message(link, qp);
    if (taken != RequesterStep::sent) return taken;
  }
  return send_packet_of(link, qp, message_of(w, w.send_psn));
}

}  // namespace kilim::vhca::transport
