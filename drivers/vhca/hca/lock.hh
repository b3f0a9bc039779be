// SPDX-License-Identifier: BSD-3-Clause
// The adapter's one lock: control calls take it, pollers try it. Recovers in a forked child
// (entry/fork.cc).
#pragma once

#include <pthread.h>

namespace kilim::vhca {

class Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  void lock() noexcept { pthread_mutex_lock(&mutex_); }
  bool try_lock() noexcept { return pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }
  // In a child after fork: the holder does not exist here.
  void reset_after_fork() noexcept { pthread_mutex_init(&mutex_, nullptr); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

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
