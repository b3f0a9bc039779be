// SPDX-License-Identifier: BSD-3-Clause
// Remembers the first thread that used a single-owner object and asserts that no other ever does.
// Empty in release builds.
#pragma once

#include "kilim/base/assert.hh"

#ifndef NDEBUG
#include <atomic>
#endif

namespace kilim {

class Owner {
 public:
#ifdef NDEBUG
  void check() noexcept {}
  void release() noexcept {}
#else
  Owner() = default;
  Owner(const Owner& o) noexcept : thread_(o.thread_.load(std::memory_order_relaxed)) {}
  Owner& operator=(const Owner& o) noexcept {
    thread_.store(o.thread_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }
  void check() noexcept {
    const void* mine = here();
    const void* first = nullptr;
    if (!thread_.compare_exchange_strong(first, mine, std::memory_order_relaxed))
      KILIM_ASSERT(first == mine);
  }
  // Hands the object over: the next thread to use it becomes the owner.
  void release() noexcept {
    thread_.store(nullptr, std::memory_order_relaxed);
  }

 private:
  static const void* here() noexcept {
    static thread_local char mark;
    return &mark;
  }
  std::atomic<const void*> thread_{nullptr};
#endif
};

}  // namespace kilim
