// SPDX-License-Identifier: BSD-3-Clause
// Counter: one writer, any readers. Adding costs a plain add; a reader never sees a torn value.
#pragma once

#include <atomic>
#include <cstdint>

namespace kilim {

class Counter {
 public:
  Counter() = default;
  Counter(const Counter& o) noexcept : n_(o.read()) {}
  Counter& operator=(const Counter& o) noexcept {
    n_.store(o.read(), std::memory_order_relaxed);
    return *this;
  }
  // Owner thread only.
  void add(uint64_t k) noexcept {
    n_.store(n_.load(std::memory_order_relaxed) + k, std::memory_order_relaxed);
  }
  // Any thread.
  [[nodiscard]] uint64_t read() const noexcept { return n_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> n_{0};
};

}  // namespace kilim
