// SPDX-License-Identifier: BSD-3-Clause
// Adapter's lock held. Never allocates; a WQE is untrusted.
#include "vhca/wq/posted_nops.hh"

#include "kilim/detail/base/units.hh"
#include "vhca/core/journal.hh"
#include "vhca/memory/dma.hh"
#include "vhca/wq/observer.hh"
#include "vhca/wq/sq_decode.hh"

namespace kilim::vhca::wq {

namespace {

constexpr auto nop = static_cast<uint8_t>(prm::Opcode::nop);

bool begins_nop(const Qp& qp) noexcept {
  const uint64_t place = qp.sq.ci & (qp.sq.wqebbs - 1);
  uint32_t word = 0;
  return memory::dma::load(Va{qp.sq.base + place * wqebb_bytes}, word) &&
         prm::ctrl::opcode::of(be32::from_raw(word).host()) == nop;
}

// What has more to do than to be read stays in its place: one that completes, or is to fail.
bool reads_on(const EngineContext& context, Qp& qp, const SendWqe& wqe) noexcept {
  if (wqe.opcode != nop || wqe.signaled() || qp.failed.has(wqe.stream)) return false;
  if (context.failing.strikes_next(context.journal->count(Journal::Kind::wqe))) return false;
  return qp.watched == nullptr || context.observer->executes(qp, wqe) == nullptr;
}

}  // namespace

bool read_posted_nops(EngineContext& context, Qp& qp) noexcept {
  if (qp.state != QpState::rts || qp.draining || !begins_nop(qp)) return false;
  const uint16_t before = qp.sq.ci;
  SendWqe wqe;
  while (qp.sq.ci != qp.sq.pi && decode_send(qp, wqe) == Decode::ok && reads_on(context, qp, wqe)) {
    context.journal->wqe(qp.qpn, wqe.index, wqe.opcode, static_cast<uint8_t>(wqe.ds));
    qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + wqe.wqebbs);
  }
  return qp.sq.ci != before;
}

}  // namespace kilim::vhca::wq
