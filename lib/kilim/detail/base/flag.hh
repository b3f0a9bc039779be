// SPDX-License-Identifier: BSD-3-Clause
// Flag: one bit that a worker and the control thread share. Any thread. A thread that reads `true`
// also sees everything that was written before set(true): set() is a release store, read() an
// acquire load, on x86-64 an ordinary load.
#pragma once

#include <atomic>

namespace kilim::inline v1 {

class Flag {
 public:
  Flag() = default;
  // Copies take the present state: for values that contain flags.
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

}  // namespace kilim::inline v1
