// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Receive Work Queue", "Shared Receive Queue". Adapter's lock held. Never allocates.
#include "vhca/wq/recv.hh"

#include <algorithm>
#include <cstring>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/av_seg.hh"
#include "kilim/prm/data_seg.hh"
#include "kilim/prm/doorbell.hh"
#include "kilim/prm/lint_rules.hh"
#include "vhca/core/journal.hh"
#include "vhca/memory/dma.hh"
#include "vhca/wq/failure_observer.hh"
#include "vhca/wq/observer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::wq {

namespace {

// The 16-bit counter of WQEs posted that lies in a doorbell record.
bool load_head(Va record, uint16_t& head) noexcept {
  uint32_t raw = 0;
  if (!memory::dma::load(Va{record.value() + 4 * prm::record_receive}, raw)) return false;
  head = static_cast<uint16_t>(be32::from_raw(raw).host());
  return true;
}

bool posted(const Qp& qp, uint16_t& count) noexcept {
  uint16_t head = 0;
  if (!load_head(qp.spec.record, head)) return false;
  count = static_cast<uint16_t>(head - qp.rq.ci);
  return true;
}

using RawWqe = std::array<prm::DataSeg, max_recv_segments>;

// False: it says that inline data lies in it, which no receive has.
bool decode(const RawWqe& raw, std::size_t first, std::size_t end, RecvWqe& wqe) noexcept {
  wqe.count = 0;
  wqe.room = 0;
  for (std::size_t i = first; i < end; i++) {
    uint32_t key = raw[i].lkey.host();
    if (key == prm::list_end_lkey) break;
    uint64_t n = raw[i].byte_count.host();
    if ((n & prm::inline_flag) != 0) return false;
    if (n == 0) n = prm::max_segment_bytes;
    wqe.segments[wqe.count++] = {raw[i].addr.host(), n, key, false};
    wqe.room += n;
  }
  return true;
}

// The observer's word on a WQE as it lies on its ring.
[[gnu::cold, gnu::noinline]] RecvTake judge(EngineContext& context, const Qp& qp, const RawWqe& raw,
                                            std::size_t bytes, const RecvWqe& wqe) noexcept {
  const prm::lint::RuleRow* row =
      context.observer->receives(qp, std::as_bytes(std::span(raw)).first(bytes), wqe);
  if (row == nullptr) return RecvTake::ok;
  context.objection = {row->syndrome, row->sentence};
  return RecvTake::refused;
}

// What is told of a WQE that no card can read.
RecvTake refuse(EngineContext& context) noexcept {
  const prm::lint::RuleRow& row = prm::lint::row_of(prm::lint::Rule::reserved_bits);
  context.objection = {row.syndrome, row.sentence};
  return RecvTake::refused;
}

RecvTake peek_own(EngineContext& context, const Qp& qp, RecvWqe& wqe) noexcept {
  if (qp.rq.wqes == 0) return RecvTake::empty;
  uint16_t count = 0;
  if (!posted(qp, count)) return RecvTake::fault;
  if (count == 0) return RecvTake::empty;
  RawWqe raw;
  std::size_t bytes = std::min(std::size_t{1} << qp.rq.shift, sizeof(raw));
  uint64_t at = qp.rq.base + (uint64_t{qp.rq.ci & (qp.rq.wqes - 1)} << qp.rq.shift);
  if (!memory::dma::copy_in(raw.data(), Va{at}, bytes)) return RecvTake::fault;
  wqe.index = qp.rq.ci;
  if (!decode(raw, qp.spec.rq_signature || qp.rq.striding() ? 1 : 0, bytes / sizeof(raw[0]), wqe))
    return refuse(context);
  return context.observer == nullptr ? RecvTake::ok : judge(context, qp, raw, bytes, wqe);
}

RecvTake peek_shared(EngineContext& context, const Qp& qp, RecvWqe& wqe) noexcept {
  Srq& srq = *qp.srq;
  uint16_t head = 0;
  if (!load_head(srq.spec.record, head)) return RecvTake::fault;
  if (head == srq.ci) return RecvTake::empty;
  RawWqe raw;
  std::size_t bytes = std::min(std::size_t{1} << srq.spec.wqe_shift, sizeof(raw));
  uint64_t at = srq.spec.buf.value() + (uint64_t{srq.head} << srq.spec.wqe_shift);
  if (!memory::dma::copy_in(raw.data(), Va{at}, bytes)) return RecvTake::fault;
  prm::SrqNextSeg link;
  std::memcpy(&link, raw.data(), sizeof(link));
  srq.next = link.next_wqe_index.host() & (srq.spec.wqes - 1);
  wqe.index = static_cast<uint16_t>(srq.head);
  if (!decode(raw, 1, bytes / sizeof(raw[0]), wqe)) return refuse(context);
  return context.observer == nullptr ? RecvTake::ok : judge(context, qp, raw, bytes, wqe);
}

}  // namespace

RecvTake look_at_recv(EngineContext& context, const Qp& qp, RecvWqe& wqe) noexcept {
  return qp.srq != nullptr ? peek_shared(context, qp, wqe) : peek_own(context, qp, wqe);
}

RecvTake peek_recv(EngineContext& context, const Qp& qp, RecvWqe& wqe) noexcept {
  const RecvTake take = look_at_recv(context, qp, wqe);
  if (take == RecvTake::ok)
    context.journal->recv(qp.qpn, wqe.index, static_cast<uint32_t>(wqe.room));
  return take;
}

bool read_recv(const Qp& qp, uint16_t index, RecvWqe& wqe) noexcept {
  const bool shared = qp.srq != nullptr;
  const uint32_t wqes = shared ? qp.srq->spec.wqes : qp.rq.wqes;
  if (wqes == 0) return false;
  const uint32_t shift = shared ? qp.srq->spec.wqe_shift : qp.rq.shift;
  RawWqe raw;
  const std::size_t bytes = std::min(std::size_t{1} << shift, sizeof(raw));
  const uint64_t base = shared ? qp.srq->spec.buf.value() : qp.rq.base;
  if (!memory::dma::copy_in(raw.data(), Va{base + (uint64_t{index & (wqes - 1)} << shift)}, bytes))
    return false;
  wqe.index = index;
  const bool has_head = shared || qp.spec.rq_signature || qp.rq.striding();
  return decode(raw, has_head ? 1 : 0, bytes / sizeof(raw[0]), wqe);
}

void consume_recv(EngineContext& context, Qp& qp) noexcept {
  if (qp.srq == nullptr) {
    qp.rq.ci++;
    qp.rq.used = 0;
    return;
  }
  qp.srq->head = qp.srq->next;
  qp.srq->ci++;
  check_limit(context, *qp.srq);
}

void check_limit(EngineContext& context, Srq& srq) noexcept {
  uint16_t head = 0;
  if (srq.limit == 0 || !load_head(srq.spec.record, head)) return;
  if (static_cast<uint16_t>(head - srq.ci) >= srq.limit) return;
  srq.limit = 0;  // once each time it is set
  context.journal->async(event::srq_limit_reached, srq.srqn);
  if (srq.sink != nullptr) srq.sink->async(event::srq_limit_reached, srq.spec.owner);
}

uint32_t recv_waiting(const Qp& qp) noexcept {
  uint16_t count = 0;
  if (qp.rq.wqes == 0 || !posted(qp, count)) return 0;
  return count;
}

tpt::Access recv_access(const Qp& qp) noexcept {
  return {qp.srq != nullptr ? qp.srq->spec.pd : qp.spec.pd, qp.qpn.value(), prm::mkey::local_write,
          may_fault(qp, qp.srq != nullptr ? paged_op::srq_receive : paged_op::receive)};
}

Verdict scatter_to_recv(EngineContext& context, const Qp& qp, const RecvWqe& wqe,
                        const std::byte* payload, uint64_t bytes) noexcept {
  if (bytes > wqe.room) {
    note_too_long(context, qp, bytes);
    return {prm::Syndrome::local_length, "the frame is longer than the receive request"};
  }
  tpt::SegmentList to{{wqe.segments.data(), wqe.count}, recv_access(qp)};
  tpt::Transfer t = tpt::scatter_bytes(context.translator, payload, bytes, to);
  if (t.ok()) {
    context.journal->translated(wqe.count > 0 ? wqe.segments[0].key : 0, t.pieces, bytes);
    return {};
  }
  context.journal->error(qp.qpn, prm::Syndrome::local_prot, 0, wqe.index, t.target.why);
  return tpt::protection::error("the receive request's memory is not allowed", t.target.hardware);
}

}  // namespace kilim::vhca::wq
