// SPDX-License-Identifier: BSD-3-Clause
// Measures where a worker's cycles go: rounds with work of streams and devices are timed; a round
// that took far longer than any work was preempted, and is told apart. One worker adds, any thread
// reads.
#pragma once

#include <cstdint>

#include <rte_cycles.h>

#include "kilim/detail/base/counter.hh"
#include "kilim/worker.hh"

namespace kilim::testpmd {

// Time slices of the system are milliseconds long, a burst's work is microseconds.
inline bool preempted(uint64_t cycles) noexcept {
  static const uint64_t limit = rte_get_tsc_hz() / 1000;
  return cycles > limit;
}

// A virtual device that a lane runs, with its clock.
struct TimedDevice {
  worker::Poller inner;
  worker::Waiting waiting;  // calls inner's with its context
  Counter cycles, preempted_rounds;

  explicit TimedDevice(const worker::Poller& p) noexcept
      : inner(p),
        waiting{p.waiting != nullptr && p.waiting->arm != nullptr ? arm : nullptr,
                p.waiting != nullptr && p.waiting->watch != nullptr ? watch : nullptr,
                p.waiting != nullptr && p.waiting->leave != nullptr ? leave : nullptr} {}
  [[nodiscard]] worker::Poller poller() noexcept {
    return {run, this, inner.name, inner.waiting != nullptr ? &waiting : nullptr};
  }

 private:
  static uint32_t run(void* self, uint32_t budget) noexcept {
    auto& t = *static_cast<TimedDevice*>(self);
    const uint64_t begin = rte_rdtsc();
    const uint32_t did = t.inner.fn(t.inner.context, budget);
    if (did == 0) return 0;
    const uint64_t took = rte_rdtsc() - begin;
    if (preempted(took))
      t.preempted_rounds.add(1);
    else
      t.cycles.add(took);
    return did;
  }
  static void arm(void* self) noexcept {
    const auto& t = *static_cast<TimedDevice*>(self);
    t.inner.waiting->arm(t.inner.context);
  }
  static bool watch(void* self, worker::WaitSet& set) noexcept {
    const auto& t = *static_cast<TimedDevice*>(self);
    return t.inner.waiting->watch(t.inner.context, set);
  }
  static void leave(void* self) noexcept {
    const auto& t = *static_cast<TimedDevice*>(self);
    t.inner.waiting->leave(t.inner.context);
  }
};

}  // namespace kilim::testpmd
