// SPDX-License-Identifier: BSD-3-Clause
// Flag: one bit between a worker and the control thread. Whoever reads it set sees what was written
// before it was set (release, acquire); reading costs a plain load on x86-64.
#pragma once

#include <atomic>

namespace kilim {

class Flag {
 public:
  Flag() = default;
  Flag(const Flag& o) noexcept : set_(o.read()) {}
  Flag& operator=(const Flag& o) noexcept {
    set(o.read());
    return *this;
  }
  [[nodiscard]] bool read() const noexcept { return set_.load(std::memory_order_acquire); }
  explicit operator bool() const noexcept { return read(); }
  void set(bool on) noexcept { set_.store(on, std::memory_order_release); }

 private:
  std::atomic<bool> set_{false};
};

}  // namespace kilim
