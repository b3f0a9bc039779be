// SPDX-License-Identifier: BSD-3-Clause
// Remembers the first thread that used a single-owner object and asserts that no other ever does.
// The object looks the same in every build, so that a program and the library may differ in NDEBUG:
// only check() depends on it. release() always forgets, because the next check may be the other's.
#pragma once

#include <atomic>

#include <pthread.h>

#include "kilim/base/assert.hh"

namespace kilim {

class Owner {
 public:
  Owner() = default;
  Owner(const Owner& o) noexcept : thread_(o.thread_.load(std::memory_order_relaxed)) {}
  Owner& operator=(const Owner& o) noexcept {
    thread_.store(o.thread_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }
  // Nothing where asserts are off.
  void check() noexcept {
#ifndef NDEBUG
    const pthread_t mine = ::pthread_self();  // never 0, and the same in every shared object
    pthread_t first = 0;
    if (!thread_.compare_exchange_strong(first, mine, std::memory_order_relaxed))
      KILIM_ASSERT(first == mine);
#endif
  }
  // Hands the object over: the next thread to use it becomes the owner.
  void release() noexcept {
    thread_.store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<pthread_t> thread_{0};
};

}  // namespace kilim
