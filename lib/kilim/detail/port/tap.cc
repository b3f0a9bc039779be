// SPDX-License-Identifier: BSD-3-Clause
// A port's tap comes and goes while workers run: what the burst behind it needs is written first,
// then the function of the slot changes in one store.
#include "kilim/detail/port/tap.hh"

#include <atomic>
#include <cerrno>

#include "kilim/detail/port/port.hh"

namespace kilim::inline v1::port {
namespace {

uint32_t tapped_rx(burst::RxQueue& q, std::span<pool::Handle> out) noexcept {
  const auto& tapped = static_cast<TappedRxQueue&>(q);
  const uint32_t n = tapped.plain(q, out);
  if (n != 0) tapped.tap->received(tapped.tap->context, tapped.number, out.first(n));
  return n;
}

// A burst frees what was sent before it posts, so what it has taken is still there.
uint32_t tapped_tx(burst::TxQueue& q, std::span<const pool::Handle> in) noexcept {
  const auto& tapped = static_cast<TappedTxQueue&>(q);
  const uint32_t n = tapped.plain(q, in);
  if (n != 0) tapped.tap->sent(tapped.tap->context, tapped.number, in.first(n));
  return n;
}

template <typename Slot, typename Burst>
void insert(Slot& slot, uint32_t number, const Tap* tap, Burst tapped) noexcept {
  if (slot.queue == nullptr) return;
  std::atomic_ref<Burst> burst(slot.burst);
  if (tap == nullptr) {
    if (slot.queue->plain != nullptr) burst.store(slot.queue->plain, std::memory_order_release);
    return;
  }
  slot.queue->tap = tap;
  slot.queue->number = number;
  slot.queue->plain = slot.burst;
  burst.store(tapped, std::memory_order_release);
}

}  // namespace

void Port::insert_tap(const Tap* tap) noexcept {
  for (uint32_t i = 0; i < rx_.size(); i++)
    insert(rx_[i], i, tap, static_cast<burst::RxBurst>(tapped_rx));
  for (uint32_t i = 0; i < tx_.size(); i++)
    insert(tx_[i], i, tap, static_cast<burst::TxBurst>(tapped_tx));
}

Status Port::set_tap(const Tap& tap) {
  const std::lock_guard lock{shape_};
  if (tap_ != nullptr) return Error{EBUSY, "the port's packets are shown to somebody already"};
  tap_ = &tap;
  insert_tap(tap_);
  return Done{};
}

Status Port::clear_tap(worker::Quiescence* workers) {
  {
    const std::lock_guard lock{shape_};
    insert_tap(nullptr);
    tap_ = nullptr;
  }
  if (!left_by(workers)) return Error{ETIMEDOUT, "a worker has not left its burst in a second"};
  return Done{};
}

}  // namespace kilim::inline v1::port
