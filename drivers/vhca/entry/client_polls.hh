// SPDX-License-Identifier: BSD-3-Clause
// When the adapter's thread may leave the adapter to a client that polls. A poll of an empty
// completion queue runs the adapter (poll_hook.hh), so beside a client that keeps polling the
// thread only looks in. But a client may poll once and then watch memory, where the adapter has to
// write: it counts as polling for as long as its last poll is young, and whether it was is asked at
// the end of each sleep. Owner: the thread; polled() from any thread, no lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace kilim::vhca::entry {

class ClientPolls {
 public:
  // In ticks of the processor's counter: between two polls of a client that does nothing else, with
  // room for one preemption by the thread itself. Some 20 µs.
  static constexpr uint64_t young_ticks = 1u << 16;
  // A client whose last poll is this old, some 200 µs, has stopped: with less its doorbells would
  // trap although it polls for each of them.
  static constexpr uint64_t stopped_ticks = 1u << 19;
  // Sleeps beside a client that polls: the first ones, and the longest.
  static constexpr uint32_t us_min = 50, us_max = 1000;
  // The least where a frame wakes the thread: only doorbells without a poll are late then.
  static constexpr uint32_t us_guarded = 250;

  // A client's poll found its queue empty and runs the adapter.
  void polled(uint64_t ticks) noexcept { last_.store(ticks, std::memory_order_relaxed); }
  void polled() noexcept { polled(__builtin_ia32_rdtsc()); }

  // Whether a client has polled since a sleep found that it had stopped. Until one does, doorbells
  // do not trap: a client that polls finds its own.
  [[nodiscard]] bool any() const noexcept {
    return last_.load(std::memory_order_relaxed) != stopped_at_;
  }
  // How long to sleep beside a client that has polled.
  [[nodiscard]] uint32_t sleep_us() const noexcept { return sleep_us_; }

  // Such a sleep has ended, by its time or before. Whether clients have stopped to poll the end of
  // its time alone tells: who woke the thread may have pushed the client off its processor.
  void slept(bool in_time, uint64_t ticks) noexcept {
    if (!in_time) return;
    const uint64_t last = last_.load(std::memory_order_relaxed);
    const uint64_t age = ticks - last;
    sleep_us_ = age < young_ticks ? std::min(2 * sleep_us_, us_max) : us_min;
    if (age >= stopped_ticks) stopped_at_ = last;
  }
  // Whether the last sleep's end has met a client that polls at this moment.
  [[nodiscard]] bool polls_on() const noexcept { return sleep_us_ != us_min; }

 private:
  std::atomic<uint64_t> last_{0};  // the counter at the last poll
  uint64_t stopped_at_ = 0;        // of last_, when a sleep found that it was old
  uint32_t sleep_us_ = us_min;
};

}  // namespace kilim::vhca::entry
