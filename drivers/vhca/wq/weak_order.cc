// SPDX-License-Identifier: BSD-3-Clause
// The window of a queue whose order is weak. Adapter's lock held. Never allocates.
#include "vhca/wq/weak_order.hh"

#include "kilim/prm/opcode.hh"
#include "vhca/wq/cqe_writer.hh"
#include "vhca/wq/posted_nops.hh"
#include "vhca/wq/qp_error.hh"

namespace kilim::vhca::wq {

using prm::Opcode;

SendClass send_class(uint8_t opcode) noexcept {
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::umr:
    case Opcode::local_inval:
    case Opcode::set_psv:  // libmlx5 (mlx5_umr_set_psv) leaves a small fence behind it, as behind
                           // UMRs
      return SendClass::change;
    case Opcode::rdma_read:
    case Opcode::atomic_cs:
    case Opcode::atomic_fa:
    case Opcode::mmo:  // mlx5dv_wr_post(3), memcpy: who depends on its target asks IBV_SEND_FENCE
      return SendClass::answer;
    case Opcode::send:
    case Opcode::send_imm:
    case Opcode::send_inval:
    case Opcode::rdma_write:
    case Opcode::rdma_write_imm:
      return SendClass::message;
    case Opcode::nop:
      return SendClass::nothing;
    default:
      return SendClass::other;
  }
}

TakenWqe* WeakOrder::delayed(SendClass what) noexcept {
  for (uint32_t i = 0; i < count_; i++) {
    TakenWqe& w = at(i);
    if (w.what == what && w.state == TakenWqe::State::delayed) return &w;
  }
  return nullptr;
}

uint32_t WeakOrder::count_delayed(SendClass what) noexcept {
  uint32_t n = 0;
  for (uint32_t i = 0; i < count_; i++)
    n += at(i).what == what && at(i).state == TakenWqe::State::delayed ? 1 : 0;
  return n;
}

bool WeakOrder::has_failed() noexcept {
  for (uint32_t i = 0; i < count_; i++) {
    if (at(i).state == TakenWqe::State::failed) return true;
  }
  return false;
}

TakenWqe* WeakOrder::under_way(uint16_t index) noexcept {
  for (uint32_t i = 0; i < count_; i++) {
    TakenWqe& w = at(i);
    if (w.index == index && w.state == TakenWqe::State::under_way) return &w;
  }
  return nullptr;
}

uint64_t WeakOrder::roll() noexcept {
  dice_ += 0x9e3779b97f4a7c15u;
  uint64_t v = dice_;
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
  v = (v ^ v >> 27) * 0x94d049bb133111ebu;
  return v ^ v >> 31;
}

bool WeakOrder::is_late(QpType type, SendClass what) noexcept {
  uint8_t chance = 0;
  if (what == SendClass::change) chance = order_.changes;
  if (what == SendClass::answer) chance = order_.answers;
  if (what == SendClass::message && type != QpType::uc) chance = order_.messages;
  return roll() % Order::always < chance;
}

namespace {

// Those behind the one that was popped last, taken or only posted (posted_nops.hh).
void pass_nops(EngineContext& context, Qp& qp) noexcept {
  WeakOrder& o = *qp.weak;
  while (!o.empty() && o.at(0).what == SendClass::nothing && !o.at(0).signaled &&
         o.at(0).state == TakenWqe::State::done) {
    qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + o.at(0).wqebbs);
    o.pop();
  }
  if (!o.empty() || !take_posted_nops(context, qp)) return;
  o.next_ci = qp.sq.ci;
  if (qp.rc) qp.rc->next_ci = qp.sq.ci;
}

}  // namespace

void complete_taken(EngineContext& context, Qp& qp) noexcept {
  WeakOrder& o = *qp.weak;
  while (!o.empty() && o.at(0).state == TakenWqe::State::done) {
    const TakenWqe& w = o.at(0);
    qp.sq.ci = static_cast<uint16_t>(qp.sq.ci + w.wqebbs);
    o.pop();
    if (!w.signaled) continue;
    pass_nops(context, qp);
    if (w.in_entry) context.entry_data = w.data;
    if (complete_send(context, qp, {w.opcode, w.index, w.bytes, w.in_entry, w.event})) continue;
    o.clear();
    fatal_qp(context, qp, "the CQ of a send queue is in error");
  }
}

}  // namespace kilim::vhca::wq
