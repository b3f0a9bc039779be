// SPDX-License-Identifier: BSD-3-Clause
// Lint rules of receive queues, own and shared: from the doorbell record to the message. Adapter's
// lock held. Never allocates.
#include "vhca/wq/recv.hh"

#include <algorithm>
#include <cstring>

#include "kilim/prm/doorbell.hh"
#include "vhca/lint/lint.hh"
#include "vhca/memory/dma.hh"

namespace kilim::vhca::lint {

namespace {

using prm::lint::Rule;

constexpr uint32_t longest_recv = wq::max_recv_segments * octoword_bytes;

}  // namespace

LintRing* Lint::ring_of(const void* queue) noexcept {
  const auto found = rings_.find(queue);
  return found != rings_.end() ? found->second.get() : nullptr;
}

void Lint::announce_receives(LintRing& r) noexcept {
  if (r.srq == nullptr && (r.qp->broken || r.qp->state == QpState::reset)) return;
  const Va record = r.srq != nullptr ? r.srq->spec.record : r.qp->spec.record;
  uint32_t raw = 0;
  if (!memory::dma::load(Va{record.value() + 4 * prm::record_receive}, raw)) return;
  const auto head = static_cast<uint16_t>(be32::from_raw(raw).host());
  if (head == r.head) return;
  const uint32_t bytes = std::min(r.bytes(), longest_recv);
  std::array<std::byte, longest_recv> wqe;
  uint32_t left = std::min<uint32_t>(static_cast<uint16_t>(head - r.head), r.wqes());
  uint32_t place = r.place;
  for (r.head = static_cast<uint16_t>(head - left); left > 0; left--) {
    place = r.srq != nullptr ? r.place : r.head & (r.wqes() - 1);
    if (!memory::dma::copy_in(wqe.data(), Va{r.base() + uint64_t{place} * r.bytes()}, bytes)) break;
    announce_receive(r, place, std::span(wqe).first(bytes));
    r.head++;
    if (r.srq != nullptr)
      r.place =
          prm::lint::segment_at<prm::SrqNextSeg>(wqe, 0).next_wqe_index.host() & (r.wqes() - 1);
  }
  r.head = head;
  check_receive_room(r, place);
}

void Lint::announce_receive(LintRing& r, uint32_t place, Bytes wqe) noexcept {
  std::memcpy(r.copy.data() + std::size_t{place} * r.bytes(), wqe.data(), wqe.size());
  r.marks[place] = {};
  const prm::lint::Findings found = prm::lint::check_recv(wqe, r.shape());
  const Qpn user = r.qp != nullptr ? r.qp->qpn : Qpn{prm::mkey::any_qpn};
  for (std::size_t i = 0; i < found.count; i++) {
    const Finding& f = found.list[i];
    const bool meant =
        f.rule == Rule::zero_length &&
        spans(user, prm::lint::segment_at<prm::DataSeg>(wqe, f.numbers[0] * octoword_bytes));
    if (!meant) report(r, place, wqe, f);
  }
}

// The last one announced is the one too many.
void Lint::check_receive_room(LintRing& r, uint32_t place) noexcept {
  const Bytes wqe{r.copy.data() + std::size_t{place} * r.bytes(),
                  std::min(r.bytes(), longest_recv)};
  if (r.waiting() > r.wqes()) report(r, place, wqe, {Rule::rq_overrun, {r.waiting(), r.wqes()}});
  const wq::Cq* cq = completes_to(r);
  if (Finding f; cq != nullptr && overruns(*cq, f)) report(r, place, wqe, f);
}

// The queue in which all receives of a ring complete; null: that depends on the queue pair, or
// there is none.
const wq::Cq* Lint::completes_to(const LintRing& r) const noexcept {
  if (r.srq == nullptr) return r.qp->state != QpState::err ? r.qp->recv_cq : nullptr;
  if (r.srq->cq != nullptr) return r.srq->cq;
  const wq::Cq* cq = nullptr;
  bool one = true;
  around_.qps->for_each([&](const wq::Qp& qp) {
    if (qp.srq != r.srq) return;
    one = one && (cq == nullptr || cq == qp.recv_cq);
    cq = qp.recv_cq;
  });
  return one ? cq : nullptr;
}

const prm::lint::RuleRow* Lint::receives(const wq::Qp& qp, Bytes raw,
                                         const wq::RecvWqe& wqe) noexcept {
  const void* queue = &qp;
  if (qp.srq != nullptr) queue = qp.srq;
  LintRing* r = ring_of(queue);
  if (r == nullptr) return nullptr;
  announce_receives(*r);
  const uint32_t place = wqe.index & (r->wqes() - 1);
  const std::byte* was = r->copy.data() + std::size_t{place} * r->bytes();
  LintRing::Mark& mark = r->marks[place];
  for (std::size_t at = 0; !mark.changed && at + octoword_bytes <= raw.size();
       at += octoword_bytes) {
    if (std::memcmp(was + at, raw.data() + at, octoword_bytes) == 0) continue;
    mark.changed = true;
    const std::size_t word = at + (std::memcmp(was + at, raw.data() + at, 8) == 0 ? 8 : 0);
    report(*r, place, raw,
           {Rule::changed_wqe, {at / octoword_bytes, word_at(was + word), word_at(&raw[word])}});
  }
  for (uint32_t i = 0; !mark.looked_at && i < wqe.count; i++) {
    Finding f;
    if (find_hole(wqe.segments[i], wq::recv_access(qp), f)) report(*r, place, raw, f);
  }
  mark.looked_at = true;
  return mark.refused && mode_ == LintMode::error ? &prm::lint::row_of(mark.rule) : nullptr;
}

}  // namespace kilim::vhca::lint
