// SPDX-License-Identifier: BSD-3-Clause
// DeferQueue: keeps one worker's withdrawn keys until nobody can use their handles any more
// (mkey/epoch.hh tells when), as rte_rcu_qsbr_dq does for memory.
// Owner: one worker. Nothing allocates, blocks or logs after the constructor.
#pragma once

#include <cstdint>
#include <memory>

#include "kilim/detail/mkey/epoch.hh"
#include "kilim/detail/mkey/mkey.hh"
#include "kilim/detail/mkey/mkey_pool.hh"

namespace kilim::inline v1::mkey {

class DeferQueue {
 public:
  // Both outlive the queue. Allocates once: a number for each queue of `epochs`.
  DeferQueue(Epochs& epochs, MkeyPool& pool);
  DeferQueue(const DeferQueue&) = delete;
  DeferQueue& operator=(const DeferQueue&) = delete;

  // Adds a key whose handle is no longer given to anybody.
  void defer(Mkey& key) noexcept {
    key.next = open_;
    open_ = pool_.number_of(key);
    size_++;
  }
  // Starts an epoch at the next poll() although no key waits (a key needs new tags).
  void request_epoch() noexcept { wanted_ = true; }

  // Advances the epoch under way by at most one step; called once a round. True: an epoch has
  // ended.
  bool poll() noexcept;
  // Removes a key that nobody can use any more; nullptr: there is none.
  Mkey* pop() noexcept {
    if (ready_ == Mkey::none) return nullptr;
    Mkey& key = pool_.at(ready_);
    ready_ = key.next;
    key.next = Mkey::none;
    key.tags_before = key.tags_now = 0;
    size_--;
    return &key;
  }
  // Makes pop() return every key. Only when all workers and queues are gone.
  void release_all() noexcept;

  // Epochs that have ended. A handle withdrawn while this is c is unusable when it is c + 2: one
  // epoch may have begun before the withdrawal.
  [[nodiscard]] uint32_t epoch() const noexcept { return epoch_; }
  // Keys added and not yet removed.
  [[nodiscard]] uint32_t size() const noexcept { return size_; }

 private:
  // What the epoch under way waits for; resting: none is under way.
  enum class Stage : uint8_t { resting, readers, queues };
  void finish() noexcept;
  static void append(MkeyPool& pool, uint32_t& list, uint32_t more) noexcept;

  Epochs& epochs_;
  MkeyPool& pool_;
  std::unique_ptr<uint64_t[]> posted_;  // by each queue, when all readers had passed
  uint64_t token_ = 0;
  uint32_t open_ = Mkey::none;     // added since the epoch began
  uint32_t waiting_ = Mkey::none;  // added before it began
  uint32_t ready_ = Mkey::none;
  uint32_t epoch_ = 0;
  uint32_t size_ = 0;
  Stage stage_ = Stage::resting;
  bool wanted_ = false;
};

inline bool DeferQueue::poll() noexcept {
  if (stage_ == Stage::resting) {
    if (open_ == Mkey::none && !wanted_) return false;
    waiting_ = open_;
    open_ = Mkey::none;
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

inline void DeferQueue::finish() noexcept {
  append(pool_, ready_, waiting_);
  waiting_ = Mkey::none;
  epoch_++;
  stage_ = Stage::resting;
}

// Puts the list that begins at `more` before `list`.
inline void DeferQueue::append(MkeyPool& pool, uint32_t& list, uint32_t more) noexcept {
  if (more == Mkey::none) return;
  uint32_t last = more;
  while (pool.at(last).next != Mkey::none) last = pool.at(last).next;
  pool.at(last).next = list;
  list = more;
}

inline void DeferQueue::release_all() noexcept {
  finish();
  append(pool_, ready_, open_);
  open_ = Mkey::none;
}

}  // namespace kilim::inline v1::mkey
