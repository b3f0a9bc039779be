// SPDX-License-Identifier: BSD-3-Clause
// Owner: remembers the first thread that used an object of one owner, and asserts that no other
// thread uses it. Only check() depends on NDEBUG. Size and layout do not, because a program and the
// library may be compiled with different settings; release() does not either, because the next
// check() may be in code of the other setting.
#pragma once

#include <atomic>

#include <pthread.h>

#include "kilim/detail/base/assert.hh"

namespace kilim::inline v1 {

class Owner {
 public:
  Owner() = default;
  Owner(const Owner& o) noexcept : thread_(o.thread_.load(std::memory_order_relaxed)) {}
  Owner& operator=(const Owner& o) noexcept {
    thread_.store(o.thread_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }
  // Asserts that this thread is the owner; the first one to call it becomes the owner. Compiled
  // with NDEBUG it does nothing.
  void check() noexcept {
#ifndef NDEBUG
    const pthread_t mine = ::pthread_self();  // never 0, and the same in every shared object
    pthread_t first = 0;
    if (!thread_.compare_exchange_strong(first, mine, std::memory_order_relaxed))
      KILIM_ASSERT(first == mine);
#endif
  }
  // The next thread that calls check() becomes the owner. It orders no data: the two threads
  // synchronise by other means.
  void release() noexcept {
    thread_.store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<pthread_t> thread_{0};
};

}  // namespace kilim::inline v1
