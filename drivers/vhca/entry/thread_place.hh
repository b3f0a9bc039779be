// SPDX-License-Identifier: BSD-3-Clause
// Keeps the adapter's thread off the processor on which its client spins, where others are allowed:
// there each frame would push the client away just when the frame's data is there for it. Where the
// peer shares the machine, the thread then mostly wakes on the processor of the one that sends and
// waits, without an interrupt between processors. Owner: the thread, which alone calls it.
#pragma once

#include <algorithm>
#include <cstdint>

#include <sched.h>

namespace kilim::vhca::entry {

class ThreadPlace {
 public:
  // How often in a row a client is met on one processor before the thread leaves it: doubled with
  // each move, so that clients that wander are not followed for ever.
  static constexpr uint32_t times_min = 4, times_max = 1u << 16;
  static constexpr uint64_t late_ns = 10'000'000;

  // The thread itself, once.
  void begin() noexcept {
    stopped_ = ::sched_getaffinity(0, sizeof(allowed_), &allowed_) != 0;
    set_ = allowed_;
  }
  // A client was met there; below 0: it is not known where.
  void client_at(int cpu) noexcept {
    if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == avoided_ || stopped_) return;
    if (cpu != met_at_) met_ = 0;
    met_at_ = cpu;
    if (++met_ < times_) return;
    met_ = 0;
    times_ = std::min(2 * times_, times_max);
    leave(cpu);
  }
  // The thread has woken `ns` nanoseconds late. Another program, of a real-time class perhaps, may
  // hold the processors that are left to the thread: then the kernel chooses among all again.
  void woken_late(uint64_t ns) noexcept {
    if (ns < late_ns || avoided_ < 0) return;
    cpu_set_t now;
    if (::sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &set_))
      ::sched_setaffinity(0, sizeof(allowed_), &allowed_);
    avoided_ = -1;
    stopped_ = true;
  }
  [[nodiscard]] int avoided() const noexcept { return avoided_; }

 private:
  // Whoever else has changed the thread's set meanwhile (taskset(1)) is obeyed from then on.
  void leave(int cpu) noexcept {
    cpu_set_t now;
    stopped_ = ::sched_getaffinity(0, sizeof(now), &now) != 0 || !CPU_EQUAL(&now, &set_);
    cpu_set_t rest = allowed_;
    CPU_CLR(static_cast<unsigned>(cpu), &rest);
    if (stopped_ || CPU_COUNT(&rest) == 0) return;
    if (::sched_setaffinity(0, sizeof(rest), &rest) != 0) {
      stopped_ = true;
      return;
    }
    set_ = rest;
    avoided_ = cpu;
  }

  cpu_set_t allowed_{}, set_{};  // at first, and as this class has left it
  int avoided_ = -1, met_at_ = -1;
  uint32_t met_ = 0, times_ = times_min;
  bool stopped_ = true;
};

}  // namespace kilim::vhca::entry
