// SPDX-License-Identifier: BSD-3-Clause
// Decides when a withdrawn handle can no longer be used: first every worker passes a quiescent
// state (rte_rcu_qsbr), then every send queue completes what was posted until there. QueueClock
// counts one send queue's WQE blocks; Epochs holds all clocks and the quiescence; the keys that
// wait for both steps are in a DeferQueue (mkey/defer_queue.hh). Threads: a clock is written by its
// queue's worker and read by all; Epochs are set up by the control thread. Nothing allocates,
// blocks or logs after set-up.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <rte_rcu_qsbr.h>

#include "kilim/detail/base/barrier.hh"
#include "kilim/detail/base/cacheline.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/queue/sq.hh"

namespace kilim::inline v1::mkey {

// Two counts of one send queue. In a cache line of its own, as only its worker writes it.
class KILIM_CACHELINE_ALIGNED QueueClock {
 public:
  // Records how much is posted and how much is complete. Called by the queue's worker before it
  // reports its quiescent state.
  void publish(const queue::Sq& sq) noexcept {
    count_ += sq.posted() - last_;
    last_ = sq.posted();
    posted_.store(count_, std::memory_order_release);
    done_.store(count_ - (sq.posted() - sq.retired()), std::memory_order_release);
  }
  // Counts everything posted as complete. Called before Sq::reset(), when the queue goes to RESET.
  void recover(const queue::Sq& sq) noexcept {
    count_ += sq.posted() - last_;
    last_ = 0;
    posted_.store(count_, std::memory_order_release);
    done_.store(count_, std::memory_order_release);
  }
  // 64-byte blocks posted, and those of them that are complete, since the start. Any thread.
  [[nodiscard]] uint64_t posted() const noexcept { return posted_.load(std::memory_order_acquire); }
  [[nodiscard]] uint64_t done() const noexcept { return done_.load(std::memory_order_acquire); }

 private:
  friend class Epochs;
  uint64_t count_ = 0;
  uint32_t last_ = 0;  // Sq::posted() at the last publish(); that counter wraps at 32 bits
  std::atomic<uint64_t> posted_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> counts_{false};  // a queue uses this clock
};

// The clocks of all send queues whose WQEs may name keys, and the workers' quiescence.
class Epochs {
 public:
  // `readers` has a thread id for every worker that may hold a handle; it outlives the Epochs.
  // Null: only one worker holds handles, the one that asks. EINVAL: max_queues is not 1 to 4096.
  static Result<std::unique_ptr<Epochs>> create(rte_rcu_qsbr* readers, uint32_t max_queues);

  // Control thread. A clock for one more queue whose WQEs may name keys; null: max_queues are in
  // use.
  QueueClock* add_queue() noexcept;
  // Control thread. Returns the clock of a destroyed queue.
  void remove_queue(QueueClock* clock) noexcept;
  [[nodiscard]] uint32_t max_queues() const noexcept { return max_; }

  // Any thread. Starts a grace period; readers_passed() is asked with the token that it returns.
  [[nodiscard]] uint64_t start() noexcept {
    return readers_ == nullptr ? 0 : rte_rcu_qsbr_start(readers_);
  }
  // True: every worker has reported since start() returned the token.
  [[nodiscard]] bool readers_passed(uint64_t token) noexcept {
    if (readers_ == nullptr) return true;
    if (rte_rcu_qsbr_check(readers_, token, false) != 1) return false;
    after_grace_period();
    return true;
  }
  // Writes what each queue has posted into max_queues() numbers; queues_passed() tells whether all
  // of it is complete.
  void snapshot(uint64_t* posted) const noexcept {
    for (uint32_t i = 0; i < max_; i++) posted[i] = clocks_[i].posted();
  }
  [[nodiscard]] bool queues_passed(const uint64_t* posted) const noexcept {
    for (uint32_t i = 0; i < max_; i++)
      if (clocks_[i].counts_.load(std::memory_order_acquire) && clocks_[i].done() < posted[i])
        return false;
    return true;
  }

 private:
  Epochs(rte_rcu_qsbr* readers, uint32_t max_queues);
  rte_rcu_qsbr* readers_;
  uint32_t max_;
  std::unique_ptr<QueueClock[]> clocks_;
};

}  // namespace kilim::inline v1::mkey
