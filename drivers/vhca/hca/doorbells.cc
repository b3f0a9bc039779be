// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Doorbell Record", "UAR Page Format". Adapter's lock held. Never allocates; what stands in a
// page or a record is untrusted.
#include "vhca/hca/doorbells.hh"

#include <atomic>
#include <utility>

#include "kilim/detail/base/be.hh"
#include "kilim/prm/doorbell.hh"
#include "vhca/memory/dma.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::hca {

namespace {

bool listens(const wq::Qp& qp) noexcept {
  return !qp.broken && (qp.state == QpState::rts || qp.state == QpState::sqd ||
                        qp.state == QpState::sqe || qp.state == QpState::err);
}

// True: more was posted than was known. `named`: a doorbell says that the client has written the
// record. Else it may be memory that nobody has written yet (of a client's own allocator, which
// libmlx5 leaves as it is, mlx5_alloc_dbrec()), so that more than the ring holds is not believed; a
// card reads no record before its queue's doorbell.
[[gnu::always_inline]] inline bool check_record(Hca& h, wq::Qp& qp, bool named) noexcept {
  if (!listens(qp) || qp.sq.wqebbs == 0) return false;
  uint32_t raw = 0;
  if (!memory::dma::load(Va{qp.spec.record.value() + 4 * prm::record_send}, raw)) [[unlikely]] {
    wq::fatal_qp(h.context, qp, "the doorbell record is gone");
    return true;
  }
  const auto pi = static_cast<uint16_t>(be32::from_raw(raw).host());
  if (pi == qp.sq.pi && pi == qp.sq.ci && qp.watched == nullptr) return false;  // most of a sweep
  if (!named && static_cast<uint16_t>(pi - qp.sq.ci) > qp.sq.wqebbs) return false;
  const auto was = std::exchange(qp.sq.pi, pi);
  if (qp.watched != nullptr) [[unlikely]]
    h.lint->announced(qp);
  bool runs = qp.state == QpState::rts && qp.wait == wq::SqWait::none;
  if (runs && qp.sq.pi != qp.sq.ci) h.ready.push(qp);
  return qp.sq.pi != was;
}

// The second word of a control segment: a queue's number above eight bits that are not looked at.
// Of another page, or none: on a card such a doorbell is nobody's.
void serve_send(Hca& h, Uar& uar, uint32_t word) noexcept {
  wq::Qp* qp = h.qps.at(word >> 8);
  if (qp == nullptr || qp->spec.uar_page != uar.index) return uar.qps.owe();
  check_record(h, *qp, true);
  uar.qps.owe_others(*qp);
}

void serve_arm(Hca& h, Uar& uar, uint32_t number) noexcept {
  wq::Cq* cq = h.cqs.at(number & 0xffffff);
  if (cq == nullptr || cq->spec.uar_page != uar.index) return uar.cqs.owe();
  wq::check_arm(h.context, *cq, true);
  uar.cqs.owe_others(*cq);
}

struct Rung {
  bool send = false, arm = false;
};

// The words of a page: the queues that they name are served, all others are owed a look. The linter
// follows what was posted queue by queue in the order of the page, whichever rang last.
[[gnu::noinline]] Rung take_words(Hca& h, Uar& uar) noexcept {
  Rung rung;
  // Its second half has the number.
  if (const uint64_t arm = UarSet::take(uar, prm::uar::cq_doorbell); arm != 0) {
    rung.arm = uar.arms = true;
    serve_arm(h, uar, static_cast<uint32_t>(arm));
  }
  for (const std::size_t at : UarSet::send_words) {
    const uint64_t send = UarSet::take(uar, at);
    if (send == 0) continue;
    rung.send = true;
    if (h.lint) [[unlikely]]
      uar.qps.owe();
    else
      serve_send(h, uar, static_cast<uint32_t>(send));
  }
  h.doorbells.store(h.doorbells.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return rung;
}

void owe_all(Uar& uar) noexcept {
  uar.cqs.owe();
  uar.qps.owe();
}

}  // namespace

bool check_doorbells(Hca& h) noexcept {
  const bool all = std::exchange(h.stores_wait, false);
  bool owes = false;
  h.uars.for_each([&](Uar& uar) noexcept {
    const Rung rung = UarSet::rung(uar) ? take_words(h, uar) : Rung{};
    if (all) owe_all(uar);
    if (uar.cqs.owes())
      uar.cqs.sweep(rung.arm,
                    [&](wq::Cq& cq) noexcept { return wq::check_arm(h.context, cq, uar.arms); });
    if (uar.qps.owes())
      uar.qps.sweep(rung.send, [&](wq::Qp& qp) noexcept { return check_record(h, qp, false); });
    owes = uar.cqs.owes() || uar.qps.owes() || owes;
  });
  return owes;
}

void check_all_doorbells(Hca& h) noexcept {
  h.uars.for_each([&](Uar& uar) noexcept {
    if (UarSet::rung(uar)) take_words(h, uar);
    uar.cqs.sweep_all([&](wq::Cq& cq) noexcept { return wq::check_arm(h.context, cq, uar.arms); });
    uar.qps.sweep_all([&](wq::Qp& qp) noexcept { return check_record(h, qp, false); });
  });
}

}  // namespace kilim::vhca::hca
