// SPDX-License-Identifier: BSD-3-Clause
// The adapter's one lock: control calls take it, pollers try it. Recovers in a forked child
// (entry/device_list.cc). It remembers whether a poller needs to try at all. The device list's
// locks are such, too.
#pragma once

#include <atomic>

#include <pthread.h>

namespace kilim::vhca {

class Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  // Control calls wait here. Whoever has held it may have left work, so no poller may pass by.
  void lock() noexcept {
    pthread_mutex_lock(&mutex_);
    rests_.store(false, std::memory_order_relaxed);
  }
  // Pollers: false where another thread is in, which then does the work.
  bool try_lock() noexcept { return pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }
  // Lock held: whether nothing is to be done until somebody calls lock(), or rings a doorbell.
  void rest(bool on) noexcept { rests_.store(on, std::memory_order_relaxed); }
  // Any thread, without the lock.
  [[nodiscard]] bool rests() const noexcept { return rests_.load(std::memory_order_relaxed); }
  // In a child after fork: the holder does not exist here.
  void reset_after_fork() noexcept { pthread_mutex_init(&mutex_, nullptr); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> rests_{false};
};

// Holds it as long as it lives.
class LockGuard {
 public:
  explicit LockGuard(Lock& l) noexcept : lock_(l) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace kilim::vhca
