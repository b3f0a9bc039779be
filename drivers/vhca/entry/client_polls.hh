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

namespace kilim::vhca {

class ClientPolls {
 public:
  // In ticks of the processor's counter: between two polls of a client that does nothing else, with
  // room for one preemption by the thread itself. Some 20 µs.
  static constexpr uint64_t young_ticks = 1u << 16;
  // Sleeps beside a client that polls: the first ones, and the longest.
  static constexpr uint32_t us_min = 50, us_max = 1000;
  // How many frames may wake the thread before it sleeps without the wires once, to see whether the
  // client polls on and takes them itself: doubled each time that it does not, halved when it does.
  // Two processes that watch memory are taken for pollers now and then, where one polls for the
  // answer of the other one's adapter while that one's thread tries.
  static constexpr uint32_t watched_min = 16, watched_max = 1024;
  static constexpr uint64_t in_vain_max = 2;

  // A client's poll found its queue empty and runs the adapter.
  void polled(uint64_t ticks) noexcept { last_.store(ticks, std::memory_order_relaxed); }
  void polled() noexcept { polled(__builtin_ia32_rdtsc()); }

  // Whether a client has polled since a sleep found that it had stopped. Until one does, doorbells
  // do not trap: a client that polls finds its own.
  [[nodiscard]] bool any() const noexcept {
    return last_.load(std::memory_order_relaxed) != stopped_at_;
  }
  // How to sleep beside a client that has polled: with the wires or without, and how long.
  [[nodiscard]] bool with_wires() const noexcept { return blind_us_ == 0; }
  [[nodiscard]] uint32_t sleep_us() const noexcept { return with_wires() ? watch_us_ : blind_us_; }

  // What ended such a sleep. Of the client only the end of its time tells: by a frame the thread
  // may have pushed it off its processor.
  enum class End : uint8_t { time, frame, call };
  // `in_vain`: how often a frame woke the thread in such sleeps up to now, and the client had taken
  // it before the kernel looked: the sleep went on, but the two are in each other's way.
  void slept(End end, uint64_t ticks, uint64_t in_vain = 0) noexcept {
    if (end == End::frame && with_wires() && --watched_left_ == 0) blind_us_ = us_min;
    if (end != End::time) return;
    const uint64_t last = last_.load(std::memory_order_relaxed);
    const bool polls_on = ticks - last < young_ticks;
    if (with_wires()) {
      watch_us_ = polls_on ? std::min(2 * watch_us_, us_max) : us_min;
      if (polls_on && in_vain >= in_vain_max) blind_us_ = us_min;
    } else if (polls_on) {
      if (blind_us_ == us_min) watched_next_ = std::max(watched_next_ / 2, watched_min);
      blind_us_ = std::min(2 * blind_us_, us_max);
    } else {
      blind_us_ = 0;
      watch_us_ = us_min;
      watched_left_ = watched_next_ = std::min(2 * watched_next_, watched_max);
    }
    if (!polls_on) stopped_at_ = last;
  }

 private:
  std::atomic<uint64_t> last_{0};  // the counter at the last poll
  uint64_t stopped_at_ = 0;        // of last_, when a sleep found that it was old
  uint32_t blind_us_ = 0;          // not 0: without the wires
  uint32_t watch_us_ = us_min;
  uint32_t watched_left_ = watched_min;
  uint32_t watched_next_ = watched_min;
};

}  // namespace kilim::vhca
