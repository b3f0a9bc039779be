// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Reliable Connection", responder. Adapter's lock held. Never allocates.
#include "vhca/transport/responder.hh"

#include <algorithm>
#include <array>

#include "vhca/core/journal.hh"
#include "vhca/transport/responder_checks.hh"
#include "vhca/transport/roce_link.hh"
#include "vhca/transport/tag_match.hh"
#include "vhca/wq/failure_observer.hh"
#include "vhca/wq/in_entry.hh"
#include "vhca/wq/sign_cqe.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Opcode;
using prm::Syndrome;

// Tells the journal of a transfer. `end`: which side of it this queue's keys are on.
void note(wq::EngineContext& context, wq::Qp& qp, const Request& r, const tpt::Transfer& t,
          wq::SignEnd end = wq::SignEnd::target) noexcept {
  wq::report_answered_errors(context, qp, end);
  if (!t.ok()) {
    if (t.source == tpt::protection::gone || t.target == tpt::protection::gone)
      context.journal->fault(t.fault_va, static_cast<uint32_t>(r.ask.bytes));
    return;
  }
  uint32_t key = r.local.segments.empty() ? r.ask.rkey : r.local.segments[0].key;
  context.journal->translated(r.ask.rkey != 0 ? r.ask.rkey : key, t.pieces, r.ask.bytes);
}

// Checks the first `bytes` bytes of the requester's own list.
Verdict check_local(wq::EngineContext& context, const Request& r, uint64_t bytes) noexcept {
  uint32_t bad_key = 0;
  return tpt::check_list(context.translator, r.local, bytes, bad_key);
}

// The requester looks at its own list before its first packet leaves, and at the rest when it makes
// the other packets.
Verdict check_first_packet(wq::EngineContext& context, const wq::Qp& qp,
                           const Request& r) noexcept {
  return check_local(context, r, std::min<uint64_t>(r.ask.bytes, mtu_bytes(qp)));
}

bool has_opcode(const Request& r, Opcode op) noexcept {
  return r.wqe.opcode == static_cast<uint8_t>(op);
}

prm::CqeOpcode completion_of(const Request& r) noexcept {
  return has_opcode(r, Opcode::send_imm)         ? prm::CqeOpcode::resp_send_imm
         : has_opcode(r, Opcode::send_inval)     ? prm::CqeOpcode::resp_send_inv
         : has_opcode(r, Opcode::rdma_write_imm) ? prm::CqeOpcode::resp_wr_imm
                                                 : prm::CqeOpcode::resp_send;
}

// `in_entry`: the data waits for the completion in EngineContext::entry_data.
Verdict finish(wq::EngineContext& context, wq::Qp& qp, const Request& r, const wq::RecvWqe& wqe,
               bool in_entry = false) noexcept {
  finish_receive(context, qp, wqe,
                 {completion_of(r), r.ask.bytes, r.wqe.imm_raw, r.wqe.solicited(), in_entry});
  return Verdict::done();
}

// The receive's own memory is asked for although the data goes to the completion: the client's
// library writes there.
tpt::Transfer move_to_entry(wq::EngineContext& context, const Request& r,
                            const tpt::SegmentList& to) noexcept {
  tpt::Transfer t;
  t.target = tpt::check_list(context.translator, to, r.ask.bytes, t.bad_key);
  if (!t.ok()) return t;
  tpt::Segment entry = wq::entry_segment(context);
  return tpt::move_bytes(context.translator, r.local, {{&entry, 1}, {}}, r.ask.bytes);
}

Verdict receive_in_wqe(wq::EngineContext& context, wq::Qp& qp, const Request& r) noexcept {
  wq::RecvWqe wqe;
  if (Verdict o = claim_receive(context, qp, wqe); !o.ok()) return o;
  if (r.ask.bytes > wqe.room) {
    wq::note_too_long(context, qp, r.ask.bytes);
    return fail_receive(context, qp, wqe,
                        {Syndrome::local_length, "message longer than its receive WQE"},
                        Syndrome::remote_inval_req);
  }
  tpt::SegmentList to{{wqe.segments.data(), wqe.count}, wq::recv_access(qp)};
  bool in_entry = wq::received_in_entry(qp, r.ask.bytes);
  tpt::Transfer t =
      in_entry ? move_to_entry(context, r, to)
               : tpt::move_packets(context.translator, r.local, to, r.ask.bytes, mtu_bytes(qp));
  note(context, qp, r, t);
  if (!t.source.ok()) return t.source;
  if (t.target.misses_page()) return page_missed(qp);
  if (!t.target.ok()) return fail_receive(context, qp, wqe, t.target, Syndrome::remote_op);
  if (has_opcode(r, Opcode::send_inval)) {
    if (Verdict o = invalidate_received(context, qp, wqe, r.wqe.imm_raw); !o.ok()) return o;
  }
  return finish(context, qp, r, wqe, in_entry);
}

// The message lies in the sender's memory; a page of the buffer that was brought in may be gone
// again, and an entry that was taken is not put back.
Verdict move_to_buffer(wq::EngineContext& context, wq::Qp& qp, const Request& r) noexcept {
  constexpr int most_tries = 64;
  TagPart part;
  if (Verdict o = tag_part(context, qp, 0, r.ask.bytes, part); !o.ok()) return o;
  SubList rest;
  bool whole = cut_list(r.local.segments, part.skip, part.to.bytes, rest);
  tpt::SegmentList from{{rest.segments, rest.count}, r.local.need};
  tpt::SegmentList to{{&part.to, 1}, wq::recv_access(qp)};
  tpt::Transfer t;
  t.target = tpt::protection::page;
  for (int i = 0; whole && i < most_tries && t.target.misses_page(); i++) {
    (void)tpt::page_in(context.translator, to, part.to.bytes);
    t = tpt::move_bytes(context.translator, from, to, part.to.bytes);
  }
  note(context, qp, r, t);
  // The sender looked at its memory before; what is gone now ends the message.
  if (!t.ok())
    return fail_tag(context, qp, {Syndrome::remote_op, (!t.target.ok() ? t.target : t.source).why});
  return finish_tag(context, qp, {completion_of(r), r.ask.bytes, r.wqe.imm_raw, r.wqe.solicited()});
}

// The first bytes say whether a tag is matched.
Verdict open_message(wq::EngineContext& context, wq::Qp& qp, const Request& r,
                     TagRoute& route) noexcept {
  std::array<std::byte, tag_headers_bytes> start;
  const uint64_t bytes = std::min<uint64_t>(r.ask.bytes, start.size());
  tpt::Transfer t = tpt::gather_bytes(context.translator, r.local, start.data(), bytes);
  if (!t.ok()) return t.source;
  const bool whole = packets_of(r.ask.bytes, mtu_bytes(qp)) == 1;
  return route_message(context, qp, {{start.data(), bytes}, r.ask.bytes, whole}, route);
}

Verdict respond_tagged(wq::EngineContext& context, wq::Qp& qp, const Request& r) noexcept {
  TagRoute route{};
  if (Verdict o = open_message(context, qp, r, route); !o.ok()) return o;
  if (route == TagRoute::taken) return Verdict::done();
  if (route == TagRoute::buffer) return move_to_buffer(context, qp, r);
  Verdict o = receive_in_wqe(context, qp, r);
  if (o.ok()) note_received(qp);
  return o;
}

Verdict respond_send(wq::EngineContext& context, wq::Qp& qp, const Request& r) noexcept {
  if (Verdict o = check_first_packet(context, qp, r); !o.ok()) return o;
  establish(context, qp);
  return qp.tags ? respond_tagged(context, qp, r) : receive_in_wqe(context, qp, r);
}

// Whether all packets of a WRITE leave and land, as far as keys say.
bool is_allowed(wq::EngineContext& context, const Request& r, const tpt::SegmentList& to) noexcept {
  uint32_t bad_key = 0;
  return check_local(context, r, r.ask.bytes).ok() &&
         tpt::check_list(context.translator, to, r.ask.bytes, bad_key).ok();
}

// A card checks each packet by itself, so the ones in front of a refusal have landed: 2,048 bytes
// of a WRITE of 4,096 at a region of 2,048, MTU 1,024 (a ConnectX-5 with firmware 16.35.8002, in
// unionxic/rdma-fault-characterization, counter_mapping_findings.md). Immediate data are the last
// packet's.
Verdict respond_write(wq::EngineContext& context, wq::Qp& qp, const Request& r) noexcept {
  const bool with_imm = has_opcode(r, Opcode::rdma_write_imm);
  if (with_imm || (qp.attr.access & access::remote_write) == 0) {
    if (Verdict o = check_first_packet(context, qp, r); !o.ok()) return o;
  }
  establish(context, qp);
  if (Verdict o = admit_write(context, qp); !o.ok()) return o;
  tpt::Segment range{r.ask.remote_addr, r.ask.bytes, r.ask.rkey, false};
  tpt::SegmentList to = remote_range(qp, range, prm::mkey::remote_write);
  wq::RecvWqe wqe;
  if (with_imm && is_allowed(context, r, to)) {
    if (Verdict o = claim_receive(context, qp, wqe); !o.ok()) return o;
  }
  tpt::Transfer t = tpt::move_packets(context.translator, r.local, to, r.ask.bytes, mtu_bytes(qp));
  note(context, qp, r, t);
  if (!t.source.ok()) return t.source;
  if (t.target.misses_page()) return page_missed(qp);
  context.counts.add(TransportCount::rx_write_requests);
  if (!t.target.ok()) return refuse_range(context, qp, to, t.target.why);
  return with_imm ? finish(context, qp, r, wqe) : Verdict::done();
}

Verdict respond_read(wq::EngineContext& context, wq::Qp& qp, const Request& r) noexcept {
  establish(context, qp);
  if (Verdict o = admit_read(context, qp); !o.ok()) return o;
  tpt::Segment range{r.ask.remote_addr, r.ask.bytes, r.ask.rkey, false};
  tpt::SegmentList from = remote_range(qp, range, prm::mkey::remote_read);
  tpt::Transfer t = tpt::move_bytes(context.translator, from, r.local, r.ask.bytes);
  note(context, qp, r, t, wq::SignEnd::source);
  if (t.source.misses_page()) return page_missed(qp);
  if (!t.target.misses_page()) context.counts.add(TransportCount::rx_read_requests);
  if (!t.source.ok()) return refuse_range(context, qp, from, t.source.why);
  if (!t.target.ok()) return t.target;
  return Verdict::done();
}

// The word has changed: an answer whose page went away just now is not asked for again.
tpt::Transfer scatter_answer(wq::EngineContext& context, const Request& r,
                             const uint64_t& old) noexcept {
  constexpr int most_tries = 64;
  tpt::Transfer t;
  for (int i = 0; i < most_tries; i++) {
    t = tpt::scatter_bytes(context.translator, reinterpret_cast<const std::byte*>(&old), 8,
                           r.local);
    if (!t.target.misses_page()) return t;
  }
  t.target = tpt::protection::gone;
  return t;
}

Verdict respond_atomic(wq::EngineContext& context, wq::Qp& qp, const Request& r) noexcept {
  establish(context, qp);
  tpt::Piece word{};
  uint64_t old = 0;
  if (Verdict o = admit_atomic(context, qp, r.ask.remote_addr); !o.ok()) return o;
  if (Verdict o = find_word(context, qp, r.ask.rkey, r.ask.remote_addr, word); !o.ok()) return o;
  // The answer has to have a place before memory changes.
  if (Verdict o = check_local(context, r, 8); !o.ok()) return o;
  if (Verdict d = tpt::page_in(context.translator, r.local, 8); !d.ok()) return d;
  WordChange change{has_opcode(r, Opcode::atomic_fa), r.ask.swap_add, r.ask.compare};
  if (Verdict o = change_word(context, qp, word, change, old); !o.ok()) return o;
  context.counts.add(TransportCount::rx_atomic_requests);
  tpt::Transfer t = scatter_answer(context, r, old);
  if (!t.target.ok()) return t.target;
  t.pieces++;
  note(context, qp, r, t);
  return Verdict::done();
}

}  // namespace

Verdict respond(wq::EngineContext& context, wq::Qp& qp, RequestKind kind,
                const Request& r) noexcept {
  switch (kind) {
    case RequestKind::send:
      return respond_send(context, qp, r);
    case RequestKind::write:
      return respond_write(context, qp, r);
    case RequestKind::read:
      return respond_read(context, qp, r);
    case RequestKind::atomic:
      break;
  }
  return respond_atomic(context, qp, r);
}

}  // namespace kilim::vhca::transport
