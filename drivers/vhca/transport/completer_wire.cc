// SPDX-License-Identifier: BSD-3-Clause
// Acknowledgements and answers. Adapter's lock held. Never allocates.
#include "vhca/transport/completer_wire.hh"

#include <algorithm>

#include "vhca/core/journal.hh"
#include "vhca/transport/rendezvous.hh"
#include "vhca/transport/requester.hh"
#include "vhca/transport/requester_wire.hh"
#include "vhca/transport/weak_wire.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/in_entry.hh"
#include "vhca/wq/posted_nops.hh"
#include "vhca/wq/qp_error.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Syndrome;

bool runs(const wq::Qp& qp) noexcept {
  return qp.state == QpState::rts || qp.state == QpState::sqd;
}

// All before `psn` has arrived there. False: an answer before it is missing.
bool acknowledge(RoceLink& link, wq::Qp& qp, uint32_t psn) noexcept {
  wq::RcWire& w = *qp.rc;
  uint32_t before = w.una_psn;
  while (runs(qp) && w.count > 0 && !w.at(0).answered()) {
    uint32_t end = roce::psn_add(w.at(0).first_psn, w.at(0).packets);
    if (w.packets_to(psn) < w.packets_to(end)) {
      w.una_psn = psn;
      break;
    }
    complete_oldest(link, qp);
  }
  if (w.una_psn != before) note_progress(link, qp);
  if (roce::psn_diff(w.una_psn, w.send_psn) > 0) w.send_psn = w.una_psn;
  return w.count == 0 || psn == w.una_psn;
}

// An answer before this packet is missing.
void take_implied_nak(RoceLink& link, wq::Qp& qp) noexcept {
  link.context->counts.add(TransportCount::implied_nak_seq_err);
  go_back(link, qp, false);
}

void handle_rnr_nak(RoceLink& link, wq::Qp& qp, uint8_t timer) noexcept {
  wq::RcWire& w = *qp.rc;
  link.context->counts.add(TransportCount::rnr_nak_retry_err);
  if (w.rnr_left == 0)
    return fail_oldest(link, qp, {Syndrome::rnr_retry_exc, "receiver not ready"});
  if (w.rnr_left != 7) w.rnr_left--;
  w.retry_left = qp.attr.retry_cnt;  // the peer is there
  uint64_t wait = rnr_timer_ns(timer);
  w.pause_until_ns = link.context->now_ns + wait;
  if (w.deadline_ns != 0) w.deadline_ns = w.pause_until_ns + timeout_ns(qp.attr.timeout);
  w.send_psn = w.una_psn;
  link.timed.push(qp);
}

void handle_nak(RoceLink& link, wq::Qp& qp, uint8_t code) noexcept {
  using roce::aeth::Nak;
  switch (static_cast<Nak>(code)) {
    case Nak::sequence:
      link.context->counts.add(TransportCount::packet_seq_err);
      return go_back(link, qp, false);
    case Nak::invalid_request:
      return fail_oldest(link, qp, {Syndrome::remote_inval_req, "the peer refused the request"});
    case Nak::remote_access:
      return fail_oldest(link, qp, {Syndrome::remote_access, "the peer refused the access"});
    case Nak::remote_op:
      return fail_oldest(link, qp, {Syndrome::remote_op, "the peer could not do it"});
  }
}

void handle_ack(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  bool ack = p.ack_kind == roce::aeth::ack;
  bool all = acknowledge(link, qp, ack ? roce::psn_add(p.psn, 1) : p.psn);
  if (!runs(qp)) return;
  if (!all) return take_implied_nak(link, qp);
  if (ack || qp.rc->count == 0 || p.psn != qp.rc->una_psn) return;
  if (p.ack_kind == roce::aeth::rnr) return handle_rnr_nak(link, qp, p.ack_value);
  if (p.ack_kind == roce::aeth::nak) handle_nak(link, qp, p.ack_value);
}

// Bytes of an answer go to the message's own memory; false: refused, the queue is in error.
bool scatter(RoceLink& link, wq::Qp& qp, const wq::RcMessage& m, uint64_t offset,
             std::span<const std::byte> bytes) noexcept {
  RequestData ask;
  SubList part;
  if (!reread(link, qp, m, ask)) return false;
  if (bytes.empty()) return true;
  bool whole = cut_list({ask.data.segments.data(), ask.data.count}, offset, bytes.size(), part);
  tpt::SegmentList to{{part.segments, part.count}, own_memory(qp, m.kind, ask).need};
  tpt::Transfer t;
  if (whole) t = tpt::scatter_bytes(link.context->translator, bytes.data(), bytes.size(), to);
  wq::report_sent_errors(*link.context, qp);
  if (whole && t.ok()) {
    link.context->journal->translated(part.segments[0].key, t.pieces, bytes.size());
    return true;
  }
  if (t.target.misses_page()) {
    // The page is coming: the answer is asked for once more.
    qp.rc->pause_until_ns = link.context->now_ns + page_stall_ns;
    qp.rc->send_psn = qp.rc->una_psn;
    link.timed.push(qp);
    return false;
  }
  fail_oldest(link, qp, t.target.given_up());
  return false;
}

void handle_answer(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  acknowledge(link, qp, p.psn);
  if (!runs(qp) || w.count == 0) return;
  if (p.psn != w.una_psn || !w.at(0).answered()) return take_implied_nak(link, qp);
  wq::RcMessage m = w.at(0);
  bool atomic = p.op == roce::Op::atomic_acknowledge;
  if (atomic != (m.kind == wq::RcMessage::Kind::atomic))
    return fail_oldest(link, qp, {Syndrome::bad_resp, "an answer of another kind"});
  uint32_t mtu = mtu_bytes(qp);
  uint32_t index = roce::psn_distance(m.first_psn, p.psn);
  uint64_t offset = uint64_t{index} * mtu;
  std::span<const std::byte> bytes = p.payload;
  if (atomic) bytes = std::as_bytes(std::span(&p.original, 1));
  if (bytes.size() != (atomic ? 8 : std::min<uint64_t>(mtu, m.bytes - offset)))
    return fail_oldest(link, qp, {Syndrome::bad_resp, "an answer of another length"});
  bool in_entry = wq::answered_in_entry(qp, m.signaled, m.bytes);
  if (in_entry)
    wq::fill_entry(*link.context, bytes);
  else if (!scatter(link, qp, m, offset, bytes))
    return;
  w.una_psn = roce::psn_add(w.una_psn, 1);
  if (index + 1 == m.packets) complete_oldest(link, qp, in_entry);
  note_progress(link, qp);
  if (roce::psn_diff(w.una_psn, w.send_psn) > 0) w.send_psn = w.una_psn;
}

}  // namespace

void complete_oldest(RoceLink& link, wq::Qp& qp, bool in_entry) noexcept {
  wq::RcWire& w = *qp.rc;
  wq::RcMessage m = w.at(0);
  w.head = (w.head + 1) % wq::RcWire::messages;
  w.count--;
  w.answers_open = static_cast<uint8_t>(w.answers_open - m.answered());
  w.una_psn = roce::psn_add(m.first_psn, m.packets);
  const bool weak = weak_on_wire(qp) != nullptr;
  if (weak && !m.rendezvous) [[unlikely]]
    return finish_weakly(link, qp, m, in_entry);
  qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + m.wqebbs);
  qp.retrying = w.count > 0 || (weak && !qp.weak->empty());
  if (m.rendezvous) return rendezvous_answered(*link.context, qp);
  auto bytes = static_cast<uint32_t>(m.answered() ? m.bytes : 0);
  if (m.signaled && w.count == 0 && wq::take_posted_nops(*link.context, qp)) w.next_ci = qp.sq.ci;
  if (m.signaled &&
      !wq::complete_send(*link.context, qp, {m.opcode, m.sq_index, bytes, in_entry, m.event}))
    wq::fatal_qp(*link.context, qp, "the CQ of a send queue is in error");
  if (qp.draining && w.count == 0) wq::stop_drained(*link.context, qp);
}

void handle_response(RoceLink& link, wq::Qp& qp, const RocePacket& p) noexcept {
  wq::RcWire& w = *qp.rc;
  if (!runs(qp) || w.count == 0) return;
  // Old ones that come late or twice, and those for what was never sent.
  if (w.packets_to(p.psn) >= w.packets_to(w.sent_psn)) return;
  if (p.op == roce::Op::acknowledge)
    handle_ack(link, qp, p);
  else
    handle_answer(link, qp, p);
  if (runs(qp)) link.ready->push(qp);
}

}  // namespace kilim::vhca::transport
