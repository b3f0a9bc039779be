// SPDX-License-Identifier: BSD-3-Clause
// When nobody can use a key any more: every worker has passed a quiescent state since its handle
// was taken back, and every queue has then completed what was posted until there. QueueClock says
// how far one send queue is, Epochs knows all clocks and the workers' quiescence, Limbo is where
// one worker parks keys until that is so. QueueClock: written by the queue's worker, read by all.
// Epochs: set up by the control thread. Limbo: one worker. None of them allocates, blocks or logs
// after set-up.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include <rte_rcu_qsbr.h>

#include "kilim/base/barrier.hh"
#include "kilim/base/cacheline.hh"
#include "kilim/base/result.hh"
#include "kilim/queue/sq.hh"
#include "kilim/umr/key_pool.hh"

namespace kilim::umr {

class KILIM_CACHELINE_ALIGNED QueueClock {
 public:
  // The queue's worker, before it reports its quiescent state: what it has posted until now and
  // what of it is complete.
  void publish(const queue::Sq& sq) noexcept {
    count_ += sq.posted() - last_;
    last_ = sq.posted();
    posted_.store(count_, std::memory_order_release);
    done_.store(count_ - (sq.posted() - sq.retired()), std::memory_order_release);
  }
  // The queue goes through RESET: everything posted has come to an end. Before Sq::reset().
  void restart(const queue::Sq& sq) noexcept {
    count_ += sq.posted() - last_;
    last_ = 0;
    posted_.store(count_, std::memory_order_release);
    done_.store(count_, std::memory_order_release);
  }
  // Any thread.
  [[nodiscard]] uint64_t posted() const noexcept { return posted_.load(std::memory_order_acquire); }
  [[nodiscard]] uint64_t done() const noexcept { return done_.load(std::memory_order_acquire); }

 private:
  friend class Epochs;
  uint64_t count_ = 0;
  uint32_t last_ = 0;  // of the queue's own counter, which wraps
  std::atomic<uint64_t> posted_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> counts_{false};  // a queue is behind it
};

class Epochs {
 public:
  // `readers` reports for every worker that may hold a handle, and outlives this; null: the only
  // worker is the one that asks.
  static Result<std::unique_ptr<Epochs>> create(rte_rcu_qsbr* readers, uint32_t max_queues);

  // Control thread: a clock for a queue whose WQEs may name keys; null where there are too many.
  QueueClock* add_queue() noexcept;
  // The queue is gone.
  void remove_queue(QueueClock* clock) noexcept;
  [[nodiscard]] uint32_t max_queues() const noexcept { return max_; }

  // Any thread.
  [[nodiscard]] uint64_t start() noexcept {
    return readers_ == nullptr ? 0 : rte_rcu_qsbr_start(readers_);
  }
  [[nodiscard]] bool readers_passed(uint64_t token) noexcept {
    if (readers_ == nullptr) return true;
    if (rte_rcu_qsbr_check(readers_, token, false) != 1) return false;
    after_grace_period();
    return true;
  }
  // What the queues have posted, into max_queues() numbers; and whether all of that is complete.
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

class Limbo {
 public:
  Limbo(Epochs& epochs, KeyPool& pool);
  Limbo(const Limbo&) = delete;
  Limbo& operator=(const Limbo&) = delete;

  // The key's handle has been taken back: from now on nobody new gets it.
  void park(IndirectKey& key) noexcept {
    key.next = open_;
    open_ = pool_.number_of(key);
    parked_++;
  }
  // Asks for an epoch although nothing is parked.
  void want_epoch() noexcept { wanted_ = true; }

  // Goes one step if it can; often, from the worker's round. True: an epoch has come to its end.
  bool turn() noexcept;
  // A key that nobody can use any more, or nullptr.
  IndirectKey* pop() noexcept {
    if (ready_ == IndirectKey::none) return nullptr;
    IndirectKey& key = pool_.at(ready_);
    ready_ = key.next;
    key.next = IndirectKey::none;
    key.tags_before = key.tags_now = 0;
    parked_--;
    return &key;
  }
  // All keys at once, when workers and queues are gone.
  void open_gates() noexcept;

  // Epochs that came to an end. What was taken back before epoch n began is nobody's when it ends,
  // so what was taken back at count c is nobody's at count c + 2.
  [[nodiscard]] uint32_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] uint32_t parked() const noexcept { return parked_; }

 private:
  enum class Stage : uint8_t { resting, readers, queues };
  void finish() noexcept;
  static void append(KeyPool& pool, uint32_t& list, uint32_t more) noexcept;

  Epochs& epochs_;
  KeyPool& pool_;
  std::unique_ptr<uint64_t[]> posted_;  // by the queues when all readers had passed
  uint64_t token_ = 0;
  uint32_t open_ = IndirectKey::none;     // parked since the epoch began
  uint32_t waiting_ = IndirectKey::none;  // parked before it began
  uint32_t ready_ = IndirectKey::none;
  uint32_t epoch_ = 0;
  uint32_t parked_ = 0;
  Stage stage_ = Stage::resting;
  bool wanted_ = false;
};

inline bool Limbo::turn() noexcept {
  if (stage_ == Stage::resting) {
    if (open_ == IndirectKey::none && !wanted_) return false;
    waiting_ = open_;
    open_ = IndirectKey::none;
    wanted_ = false;
    token_ = epochs_.start();
    stage_ = Stage::readers;
  }
  if (stage_ == Stage::readers) {
    if (!epochs_.readers_passed(token_)) return false;
    epochs_.snapshot(posted_.get());
    stage_ = Stage::queues;
  }
  if (!epochs_.queues_passed(posted_.get())) return false;
  finish();
  return true;
}

inline void Limbo::finish() noexcept {
  append(pool_, ready_, waiting_);
  waiting_ = IndirectKey::none;
  epoch_++;
  stage_ = Stage::resting;
}

inline void Limbo::append(KeyPool& pool, uint32_t& list, uint32_t more) noexcept {
  if (more == IndirectKey::none) return;
  uint32_t last = more;
  while (pool.at(last).next != IndirectKey::none) last = pool.at(last).next;
  pool.at(last).next = list;
  list = more;
}

inline void Limbo::open_gates() noexcept {
  finish();
  append(pool_, ready_, open_);
  open_ = IndirectKey::none;
}

}  // namespace kilim::umr
