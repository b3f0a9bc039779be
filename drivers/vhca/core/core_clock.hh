// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Initialization Segment", the internal timer: a page that clients map for reading, with the
// clock that stamps completions. It holds what was last written: the engine does so each turn, and
// whoever is about to read may do so first (doc/decisions/0010-core-clock.md). Owner: the adapter.
#pragma once

#include <atomic>
#include <cstdint>

#include "kilim/detail/base/fd.hh"

namespace kilim::vhca {

// Nanoseconds of CLOCK_MONOTONIC, give or take some 10 (core/tsc_clock.hh). Any thread.
uint64_t clock_ns() noexcept;

class CoreClock {
 public:
  CoreClock() = default;
  ~CoreClock();
  CoreClock(const CoreClock&) = delete;
  CoreClock& operator=(const CoreClock&) = delete;

  // The page's memory, made at the first call; -1: there is none to be had. Adapter's lock held.
  int fd() noexcept;
  // Closes the memory's descriptor, after which a page that was made is not shown to further
  // clients; those that have it mapped go on to read the time. Adapter's lock held.
  void show_no_more() noexcept;
  // Whether anybody has asked for the page.
  [[nodiscard]] bool shown() const noexcept {
    return word_.load(std::memory_order_relaxed) != nullptr;
  }
  // The time is `now_ns`. Any thread; nothing where nobody has asked for the page.
  void set(uint64_t now_ns) noexcept {
    if (uint64_t* word = word_.load(std::memory_order_acquire)) store(word, now_ns);
  }

 private:
  static void store(uint64_t* word, uint64_t now_ns) noexcept;

  Fd fd_;
  std::atomic<uint64_t*> word_{nullptr};  // 32 bits of higher value first, big endian each
};

}  // namespace kilim::vhca
