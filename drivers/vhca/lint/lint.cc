// SPDX-License-Identifier: BSD-3-Clause
// Follows each queue from doorbell to completion. Adapter's lock held. Allocates only in add().
#include "vhca/lint/lint.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kilim/detail/base/units.hh"
#include "kilim/prm/doorbell.hh"
#include "vhca/memory/dma.hh"
#include "vhca/tpt/translate.hh"

namespace kilim::vhca::lint {

namespace {

LintQueue& queue_of(const wq::Qp& qp) noexcept {
  return static_cast<LintQueue&>(*qp.watched);
}

using prm::lint::Rule;

// The part of a ring that begins at block `place`, `blocks` long, straight.
bool copy_ring(const wq::SendRing& sq, uint64_t place, uint32_t blocks, std::byte* to) noexcept {
  const auto at = static_cast<uint32_t>(place & (sq.wqebbs - 1));
  const uint32_t straight = std::min(blocks, sq.wqebbs - at);
  return memory::dma::copy_in(to, Va{sq.base + uint64_t{at} * wqebb_bytes},
                              std::size_t{straight} * wqebb_bytes) &&
         memory::dma::copy_in(to + std::size_t{straight} * wqebb_bytes, Va{sq.base},
                              std::size_t{blocks - straight} * wqebb_bytes);
}

}  // namespace

Result<LintMode> find_lint_mode(std::string_view word) {
  if (word == "off") return LintMode::off;
  if (word == "warn") return LintMode::warn;
  if (word == "error") return LintMode::error;
  return Error{EINVAL, "off, warn or error is needed"};
}

prm::lint::QueueKind queue_kind(QpType type) noexcept {
  switch (type) {
    case QpType::ud:
      return prm::lint::QueueKind::datagram;
    case QpType::xrc_ini:
      return prm::lint::QueueKind::xrc;
    case QpType::raw_packet:
      return prm::lint::QueueKind::raw_packet;
    case QpType::dci:
      return prm::lint::QueueKind::dynamic;
    default:
      return prm::lint::QueueKind::connected;
  }
}

void Lint::add(wq::Qp& qp) {
  if (qp.rq.wqes != 0) {
    auto ring = std::make_unique<LintRing>();
    ring->qp = &qp;
    ring->copy.resize(std::size_t{ring->wqes()} * ring->bytes());
    ring->marks.resize(ring->wqes());
    rings_.emplace(&qp, std::move(ring));
  }
  if (qp.sq.wqebbs == 0) return;
  auto q = std::make_unique<LintQueue>();
  q->qp = &qp;
  q->copy.resize(std::size_t{qp.sq.wqebbs} * wqebb_bytes);
  q->wqes.resize(qp.sq.wqebbs);
  qp.watched = q.get();
  queues_.push_back(std::move(q));
}

void Lint::add(const wq::Srq& srq) {
  auto ring = std::make_unique<LintRing>();
  ring->srq = &srq;
  ring->copy.resize(std::size_t{ring->wqes()} * ring->bytes());
  ring->marks.resize(ring->wqes());
  rings_.emplace(&srq, std::move(ring));
}

// Places begin behind one turn of the counter, so that those of requests which the engine has taken
// before are none that is remembered.
void Lint::join(wq::Qp& qp) {
  add(qp);
  if (LintRing* ring = ring_of(&qp)) ring->head = qp.rq.ci;
  if (qp.watched == nullptr) return;
  LintQueue& q = queue_of(qp);
  q.announced = q.completed = (uint64_t{1} << 16) + qp.sq.ci;
  announced(qp);
}

void Lint::join(const wq::Srq& srq) {
  add(srq);
  LintRing& ring = *ring_of(&srq);
  ring.head = srq.ci;
  ring.place = srq.head;
}

void Lint::restart(wq::Qp& qp) noexcept {
  if (LintRing* ring = ring_of(&qp)) ring->head = 0;
  if (qp.watched == nullptr) return;
  LintQueue& q = queue_of(qp);
  q.announced = q.completed = 0;
  q.signaled = 0;
  q.bare = LintQueue::nowhere;
  for (LintWqe& w : q.wqes) w.at = ~uint64_t{0};
}

void Lint::remove(wq::Qp& qp) noexcept {
  std::erase_if(queues_, [&](const auto& q) { return q->qp == &qp; });
  rings_.erase(&qp);
  qp.watched = nullptr;
}

void Lint::remove(const wq::Srq& srq) noexcept {
  rings_.erase(&srq);
}

void Lint::deregistered(uint32_t index) noexcept {
  look();
  regions_.remove(index);
}

void Lint::look() noexcept {
  regions_.each_new([this](uint32_t key, uint64_t address) {
    tell({Subject::Kind::region}, {Rule::unmapped_region, {key, address}});
  });
  for (auto& [queue, ring] : rings_) announce_receives(*ring);
}

void Lint::announced(wq::Qp& qp) noexcept {
  LintQueue& q = queue_of(qp);
  const wq::SendRing& sq = q.qp->sq;
  const auto fresh = static_cast<uint16_t>(sq.pi - static_cast<uint16_t>(q.announced));
  const uint64_t end = q.announced + fresh;
  if (q.qp->state == QpState::err || q.qp->state == QpState::sqe) {  // it will be flushed
    q.announced = q.completed = end;
    return;
  }
  while (q.announced < end) {
    const uint64_t place = q.announced;
    const uint64_t left = std::min<uint64_t>(end - place, sq.wqebbs);
    if (!copy_ring(sq, place, 1, straight_.data())) break;
    const auto ctrl = prm::lint::segment_at<prm::CtrlSeg>(straight_, 0);
    const Octowords ds{prm::ctrl::ds::get(ctrl)};
    const auto blocks = static_cast<uint32_t>(
        ds.value() == 0 ? left : std::min<uint64_t>(wqebbs_for(ds).value(), left));
    constexpr uint32_t most = sizeof(straight_) / wqebb_bytes;
    const uint32_t held = std::min(blocks, most);
    if (!copy_ring(sq, place, held, straight_.data())) break;
    LintWqe& w = q.slot(place);
    w = {};
    w.at = place;
    w.wqebbs = static_cast<uint16_t>(blocks);
    w.fence = static_cast<uint8_t>(ctrl.fm_ce_se >> 5);
    w.signaled = prm::ctrl::completes(ctrl.fm_ce_se);
    for (uint32_t i = 0; i < held; i++)
      std::memcpy(q.copy.data() + ((place + i) & (sq.wqebbs - 1)) * wqebb_bytes,
                  straight_.data() + std::size_t{i} * wqebb_bytes, wqebb_bytes);
    q.announced = place + blocks;
    announce_one(q, w, std::span(straight_).first(std::size_t{held} * wqebb_bytes));
  }
  q.announced = end;
}

void Lint::resumed(wq::Qp& qp) noexcept {
  LintQueue& q = queue_of(qp);
  const wq::SendRing& sq = q.qp->sq;
  for (uint64_t place = q.place_of(sq.ci); place < q.announced; place++) {
    if (!copy_ring(sq, place, 1, straight_.data())) return;
    std::memcpy(q.copy.data() + (place & (sq.wqebbs - 1)) * wqebb_bytes, straight_.data(),
                wqebb_bytes);
  }
}

void Lint::announce_one(LintQueue& q, LintWqe& w, Bytes bytes) noexcept {
  const prm::lint::Findings found = prm::lint::check_wqe(bytes, queue_kind(q.qp->type));
  for (std::size_t i = 0; i < found.count; i++) {
    if (!is_meant(*q.qp, bytes, found.list[i])) report(q, w, bytes, found.list[i]);
  }
  if (!found.has(Rule::ds_mismatch)) check_empty_inline(q, w, bytes);
  check_room(q, w, bytes);
  // What cannot be read names no keys.
  if (found.has(Rule::ds_mismatch)) return;
  collect_keys(q, w, bytes);
  check_keys(q, w, bytes);
}

// Whether a length of 0 says 2 GiB on purpose: as much lies there under the key.
bool Lint::is_meant(const wq::Qp& qp, Bytes bytes, const Finding& f) const noexcept {
  if (f.rule != Rule::zero_length) return false;
  const auto d = prm::lint::segment_at<prm::DataSeg>(bytes, f.numbers[0] * octoword_bytes);
  return spans(qp.qpn, d);
}

// 2 GiB from the address of a segment, under its key.
bool Lint::spans(Qpn qpn, const prm::DataSeg& d) const noexcept {
  const tpt::Mkey* m = around_.keys->at(d.lkey.host() >> 8);
  if (m == nullptr) return false;
  tpt::Walk walk;
  return walk
      .open(*around_.keys, around_.profile->max_indirection, d.lkey.host(), d.addr.host(),
            prm::max_segment_bytes, {m->pd, qpn.value(), 0})
      .ok();
}

// An empty message by inline data; or a piece of 2 GiB whose length was written as it is.
void Lint::check_empty_inline(LintQueue& q, LintWqe& w, Bytes bytes) noexcept {
  const auto ctrl = prm::lint::segment_at<prm::CtrlSeg>(bytes, 0);
  const auto op = static_cast<prm::Opcode>(prm::ctrl::opcode::get(ctrl));
  const std::size_t end = prm::ctrl::ds::get(ctrl) * std::size_t{octoword_bytes};
  const std::size_t at = prm::lint::data_at(bytes, op, queue_kind(q.qp->type));
  if (at == 0 || at + sizeof(prm::DataSeg) != end || end > bytes.size()) return;
  const auto d = prm::lint::segment_at<prm::DataSeg>(bytes, at);
  if (d.byte_count.host() == prm::inline_flag && spans(q.qp->qpn, d))
    report(q, w, bytes, {Rule::empty_inline, {at / octoword_bytes, d.lkey.host()}});
}

void Lint::check_room(LintQueue& q, LintWqe& w, Bytes bytes) noexcept {
  const uint64_t used = w.at + w.wqebbs - q.completed;
  const uint32_t wqebbs = q.qp->sq.wqebbs;
  if (used > wqebbs) report(q, w, bytes, {Rule::sq_overrun, {used, wqebbs}});
  if (!w.signaled) return;
  q.signaled++;
  if (Finding f; overruns(*q.qp->send_cq, f)) report(q, w, bytes, f);
}

// Completions under way: of signaled send WQEs and of posted receive WQEs.
uint64_t Lint::coming(const wq::Cq& cq) const noexcept {
  uint64_t n = 0;
  for (const auto& q : queues_) {
    if (q->qp->send_cq == &cq) n += q->signaled;
  }
  for (const auto& [queue, ring] : rings_) {
    if (completes_to(*ring) == &cq) n += ring->waiting();
  }
  return n;
}

bool Lint::overruns(const wq::Cq& cq, Finding& f) const noexcept {
  if (cq.spec.ignore_overrun) return false;
  uint64_t n = coming(cq);
  constexpr uint32_t index_mask = prm::arm::index_mask;
  if (n + ((cq.producer - cq.consumer) & index_mask) <= cq.spec.cqe_count) return false;
  uint32_t raw = 0;
  if (!memory::dma::load(Va{cq.spec.record.value() + 4 * prm::record_consumer_index}, raw))
    return false;
  const uint32_t consumer = be32::from_raw(raw).host();
  n += (cq.producer - consumer) & index_mask;
  f = {Rule::cq_overrun, {n, cq.spec.cqe_count, cq.cqn.value()}};
  return n > cq.spec.cqe_count;
}

const prm::lint::RuleRow* Lint::executes(wq::Qp& qp, const wq::SendWqe& wqe) noexcept {
  LintQueue& q = queue_of(qp);
  LintWqe* w = q.find(q.place_of(wqe.index));
  if (w == nullptr) return nullptr;
  if (!w->changed) check_change(q, *w, wqe);
  if (!w->looked_at) check_memory(q, *w, wqe);
  w->looked_at = true;
  return w->refused && mode_ == LintMode::error ? &prm::lint::row_of(w->rule) : nullptr;
}

void Lint::check_change(LintQueue& q, LintWqe& w, const wq::SendWqe& wqe) noexcept {
  const std::size_t bytes = std::size_t{wqe.ds} * octoword_bytes;
  const uint32_t mask = q.qp->sq.wqebbs - 1;
  for (std::size_t at = 0; at < bytes; at += octoword_bytes) {
    const std::byte* was =
        q.copy.data() + ((w.at + at / wqebb_bytes) & mask) * wqebb_bytes + at % wqebb_bytes;
    const std::byte* is = wqe.bytes.data() + at;
    if (std::memcmp(was, is, octoword_bytes) == 0) continue;
    w.changed = true;
    const std::size_t word = std::memcmp(was, is, 8) == 0 ? 8 : 0;
    report(q, w, {wqe.bytes.data(), bytes},
           {Rule::changed_wqe, {at / octoword_bytes, word_at(was + word), word_at(is + word)}});
    return;
  }
}

void Lint::completed(wq::Qp& qp, uint16_t wqe_index) noexcept {
  LintQueue& q = queue_of(qp);
  const uint64_t place = q.place_of(wqe_index);
  LintWqe* w = q.find(place);
  const uint64_t behind = place + (w != nullptr ? w->wqebbs : 1);
  q.completed = std::max(q.completed, behind);
  if (w == nullptr || !w->signaled) return;
  w->signaled = false;
  if (q.signaled > 0) q.signaled--;
}

}  // namespace kilim::vhca::lint
