// SPDX-License-Identifier: BSD-3-Clause
// Counter: one thread adds, any thread reads. Adding is an ordinary load, add and store, without a
// lock prefix; a reader never sees half of an addition. It wraps at 2^64.
#pragma once

#include <atomic>
#include <cstdint>

namespace kilim::inline v1 {

class Counter {
 public:
  Counter() = default;
  // Copies take the present count: for values that contain counters.
  Counter(const Counter& o) noexcept : n_(o.read()) {}
  Counter& operator=(const Counter& o) noexcept {
    n_.store(o.read(), std::memory_order_relaxed);
    return *this;
  }
  // The adding thread only.
  void add(uint64_t k) noexcept {
    n_.store(n_.load(std::memory_order_relaxed) + k, std::memory_order_relaxed);
  }
  // Any thread. The count orders no other data.
  [[nodiscard]] uint64_t read() const noexcept { return n_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> n_{0};
};

}  // namespace kilim::inline v1
