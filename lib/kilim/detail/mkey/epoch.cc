// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mkey/epoch.hh"

#include <cerrno>

#include "kilim/detail/base/memory_reserve.hh"

namespace kilim::inline v1::mkey {

Epochs::Epochs(rte_rcu_qsbr* readers, uint32_t max_queues)
    : readers_(readers), max_(max_queues), clocks_(std::make_unique<QueueClock[]>(max_queues)) {}

Result<std::unique_ptr<Epochs>> Epochs::create(rte_rcu_qsbr* readers, uint32_t max_queues) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  if (max_queues == 0 || max_queues > 4096)
    return Error{EINVAL, "epochs need the number of send queues that may name keys, 1 to 4096"};
  return std::unique_ptr<Epochs>(new Epochs(readers, max_queues));
}

// A clock that is used again keeps its counts, since snapshots may still refer to them.
QueueClock* Epochs::add_queue() noexcept {
  for (uint32_t i = 0; i < max_; i++) {
    QueueClock& c = clocks_[i];
    if (c.counts_.load(std::memory_order_relaxed)) continue;
    c.last_ = 0;
    c.counts_.store(true, std::memory_order_release);
    return &c;
  }
  return nullptr;
}

void Epochs::remove_queue(QueueClock* clock) noexcept {
  clock->counts_.store(false, std::memory_order_release);
}

}  // namespace kilim::inline v1::mkey
