// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Tag Matching". Adapter's lock held. Never allocates.
#include "vhca/transport/tag_match.hh"

#include <algorithm>
#include <cstring>

#include "kilim/prm/data_seg.hh"
#include "vhca/core/journal.hh"
#include "vhca/tpt/umr_apply.hh"
#include "vhca/transport/rendezvous.hh"
#include "vhca/transport/responder_checks.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/observer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::transport {

namespace {

using prm::Syndrome;
using prm::TagNews;
using prm::TmhOp;

// What a message says about itself.
struct Headers {
  prm::Tmh tmh;
  prm::Rvh rvh;
};

// Null: nothing to object to.
const char* read_headers(const TagMessage& m, Headers& h) noexcept {
  h = {};
  // One without a tag may have any form, an empty one too.
  std::memcpy(static_cast<void*>(&h), m.start.data(), std::min(m.start.size(), sizeof(h)));
  switch (static_cast<TmhOp>(h.tmh.opcode)) {
    case TmhOp::no_tag:
      return nullptr;
    case TmhOp::rendezvous:
      return m.bytes < sizeof(Headers) ? "a rendezvous without its headers" : nullptr;
    case TmhOp::fin:
    case TmhOp::eager:
      return m.bytes < sizeof(prm::Tmh) ? "a tagged message without its header" : nullptr;
  }
  return "an undefined kind of tagged message";
}

Verdict complete(wq::EngineContext& context, wq::Qp& qp, const wq::TagCompletion& done) noexcept {
  if (wq::complete_tag(context, qp, done)) return Verdict::done();
  wq::fatal_qp(context, qp, "the CQ of a queue that matches tags is in error");
  return {Syndrome::remote_op, "the CQ of a queue that matches tags is in error"};
}

// Whether the adapter fetches the data itself.
bool can_fetch(const wq::EngineContext& context, const TagMessage& m, const Headers& h,
               const wq::TagBuffer& buffer) noexcept {
  return m.whole && m.bytes <= context.profile->max_rendezvous_header &&
         h.rvh.len.host() <= buffer.bytes;
}

Verdict begin_rendezvous(wq::EngineContext& context, wq::Qp& qp, const Headers& h,
                         uint32_t place) noexcept {
  wq::TagList& list = *qp.srq->tags;
  if (qp.tags->count == wq::TagWork::most) return Verdict::rnr(qp.attr.min_rnr_timer);
  wq::Rendezvous r;
  r.place = static_cast<uint16_t>(place);
  r.buffer = list.at(place);
  r.va = h.rvh.va.host();
  r.rkey = h.rvh.rkey.host();
  r.bytes = h.rvh.len.host();
  std::memcpy(r.header.data(), &h, sizeof(h));
  r.header[0] = static_cast<std::byte>(TmhOp::fin);
  list.remove(place);
  wq::TagCompletion done{prm::CqeOpcode::no_packet, TagNews::consumed, r.place};
  std::memcpy(done.head.data(), &h.tmh, sizeof(h.tmh));
  if (Verdict o = complete(context, qp, done); !o.ok()) return o;
  push_rendezvous(context, qp, r);
  return Verdict::done();
}

// The message gets the buffer.
Verdict hold(wq::EngineContext& context, wq::Qp& qp, const TagMessage& m, const Headers& h,
             uint32_t place) noexcept {
  wq::TagWork& t = *qp.tags;
  const wq::TagBuffer& buffer = qp.srq->tags->at(place);
  const bool eager = static_cast<TmhOp>(h.tmh.opcode) == TmhOp::eager;
  const uint32_t skip = eager ? sizeof(prm::Tmh) : 0;
  // Its pages come before the entry is used up.
  tpt::Segment range{buffer.addr, std::min(m.bytes - skip, buffer.bytes), buffer.key, false};
  tpt::SegmentList to{{&range, 1}, wq::recv_access(qp)};
  if (tpt::page_in(context.translator, to, range.bytes).misses_page()) return page_missed(qp);
  t.holding = true;
  t.place = static_cast<uint16_t>(place);
  t.held = buffer;
  t.skip = skip;
  t.news = eager ? TagNews::consumed_msg : TagNews::consumed_msg_sw_rndv;
  std::memcpy(t.header.data(), &h.tmh, sizeof(h.tmh));
  qp.srq->tags->remove(place);
  if (m.whole) return Verdict::done();
  t.news = eager ? TagNews::consumed : TagNews::consumed_sw_rndv;
  return complete(context, qp,
                  {eager ? prm::CqeOpcode::no_packet : prm::CqeOpcode::resp_send, t.news, t.place,
                   0, 0, 0, false, t.header});
}

}  // namespace

Verdict route_message(wq::EngineContext& context, wq::Qp& qp, const TagMessage& m,
                      TagRoute& route) noexcept {
  wq::TagWork& t = *qp.tags;
  // It comes again.
  route = t.holding ? TagRoute::buffer : TagRoute::receive;
  if (t.holding || (qp.rc && qp.rc->holds_receive)) return Verdict::done();
  Headers h;
  if (const char* why = read_headers(m, h))
    return refuse(context, qp, {Syndrome::remote_inval_req, why});
  const auto kind = static_cast<TmhOp>(h.tmh.opcode);
  t.news = TagNews::no_tag;
  if (kind == TmhOp::no_tag || kind == TmhOp::fin) return Verdict::done();
  const uint32_t place = qp.srq->tags->find(h.tmh.tag.host());
  t.news = TagNews::unexpected;
  if (place == wq::TagList::none) return Verdict::done();
  if (kind == TmhOp::rendezvous && can_fetch(context, m, h, qp.srq->tags->at(place))) {
    route = TagRoute::taken;
    return begin_rendezvous(context, qp, h, place);
  }
  route = TagRoute::buffer;
  return hold(context, qp, m, h, place);
}

void note_received(wq::Qp& qp) noexcept {
  if (qp.tags->news == TagNews::unexpected) qp.srq->tags->count_unexpected();
}

Verdict tag_part(wq::EngineContext& context, wq::Qp& qp, uint64_t offset, uint64_t bytes,
                 TagPart& part) noexcept {
  const wq::TagWork& t = *qp.tags;
  part.skip = offset == 0 ? t.skip : 0;
  // The packet that comes again need not be the one that came.
  if (bytes < part.skip)
    return fail_tag(context, qp, {Syndrome::remote_inval_req, "another packet than before"});
  const uint64_t at = offset + part.skip - t.skip;
  part.to = {t.held.addr + at, bytes - part.skip, t.held.key, false};
  if (at + part.to.bytes <= t.held.bytes) return Verdict::done();
  return fail_tag(context, qp,
                  {Syndrome::remote_inval_req, "message longer than its tagged buffer"});
}

Verdict fail_tag(wq::EngineContext& context, wq::Qp& qp, Verdict to_requester) noexcept {
  wq::cancel_tags(context, qp);
  return refuse(context, qp, to_requester);
}

Verdict finish_tag(wq::EngineContext& context, wq::Qp& qp, const TagEnd& end) noexcept {
  wq::TagWork& t = *qp.tags;
  if (end.op == prm::CqeOpcode::resp_send_inv) {
    const uint32_t key = be32::from_raw(end.imm_raw).host();
    Verdict d = tpt::invalidate_key(*context.keys, key, remote_pd(qp), qp.qpn.value(),
                                    tpt::Invalidator::peer);
    if (!d.ok()) return fail_tag(context, qp, {Syndrome::remote_access, d.why});
    context.journal->invalidate(key);
  }
  t.holding = false;
  const bool whole = t.news == TagNews::consumed_msg || t.news == TagNews::consumed_msg_sw_rndv;
  wq::TagCompletion done{end.op, whole ? t.news : TagNews::expected, t.place};
  done.bytes = static_cast<uint32_t>(end.bytes - t.skip);
  done.imm_raw = end.op == prm::CqeOpcode::resp_send ? 0 : end.imm_raw;
  done.solicited = end.solicited;
  if (whole) done.head = t.header;
  return complete(context, qp, done);
}

namespace {

// What an append says of its buffer; false: there is no such segment.
bool read_buffer(const wq::SendWqe& wqe, const prm::TagSeg& seg, wq::TagBuffer& buffer) noexcept {
  prm::DataSeg data;
  if (wqe.body().size() < sizeof(seg) + sizeof(data)) return false;
  std::memcpy(&data, wqe.body().data() + sizeof(seg), sizeof(data));
  const uint32_t count = data.byte_count.host();
  if ((count & prm::inline_flag) != 0) return false;
  buffer = {seg.tag.host(), seg.mask.host(), data.addr.host(), count, data.lkey.host()};
  const bool empty = buffer.key == prm::list_end_lkey;
  if (empty) buffer.bytes = 0;
  if (!empty && count == 0) buffer.bytes = uint64_t{1} << 31;
  return true;
}

struct TagChange {
  TagNews news = TagNews::nop;
  uint16_t place = 0;
  bool success = true;
};

// False: not an operation.
bool change_list(wq::TagList& list, const wq::SendWqe& wqe, const prm::TagSeg& seg,
                 TagChange& change) noexcept {
  wq::TagBuffer buffer;
  switch (static_cast<prm::TagOp>(seg.opcode >> prm::tag::opcode_shift)) {
    case prm::TagOp::nop:
      return true;
    case prm::TagOp::append:
      if (!read_buffer(wqe, seg, buffer) || !list.append(buffer, seg.index.host())) return false;
      change = {TagNews::append, list.last(), true};
      return true;
    case prm::TagOp::remove:
      change = {TagNews::remove, seg.index.host(), list.remove(seg.index.host())};
      return true;
  }
  return false;
}

}  // namespace

Verdict exec_tag_operation(wq::EngineContext& context, wq::Qp& qp,
                           const wq::SendWqe& wqe) noexcept {
  if (!qp.tags) return {Syndrome::local_qp_op, "the queue matches no tags"};
  wq::TagList& list = *qp.srq->tags;
  prm::TagSeg seg;
  if (wqe.body().size() < sizeof(seg))
    return {Syndrome::local_qp_op, "a list operation shorter than its segment"};
  std::memcpy(&seg, wqe.body().data(), sizeof(seg));
  if ((seg.flags & prm::tag::flag_sw_count) != 0) list.handled(seg.sw_count.host());
  TagChange change;
  if (!change_list(list, wqe, seg, change))
    return {Syndrome::local_qp_op, "a list operation that the list does not take"};
  if ((seg.flags & prm::tag::flag_completion) == 0) {
    context.journal->tag(qp.srq->srqn, static_cast<uint8_t>(change.news), change.place, 0,
                         list.came());
    return Verdict::done();
  }
  prm::TagCqe head{be32{change.success ? prm::tag::success : 0}, be16{list.came()}, {}};
  wq::TagCompletion done{prm::CqeOpcode::no_packet, change.news, change.place, wqe.index};
  std::memcpy(done.head.data(), &head, sizeof(head));
  if (!wq::complete_tag(context, qp, done))
    return {Syndrome::local_qp_op, "the CQ of a queue that matches tags is in error"};
  // The WQE itself tells nothing: by this its client knows that its room is free.
  if (qp.watched != nullptr) context.observer->completed(qp, wqe.index);
  return Verdict::done();
}

}  // namespace kilim::vhca::transport
