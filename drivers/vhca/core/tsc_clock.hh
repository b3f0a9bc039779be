// SPDX-License-Identifier: BSD-3-Clause
// The monotonic clock by the processor's time stamp counter: read from the system some thousand
// times a second, and carried on by the counter in between
// (doc/decisions/0080-the-clock-goes-on-by-itself.md). Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace kilim::vhca {

// Source::ticks() reads the counter, Source::ns() the clock that is carried on; both are static.
template <typename Source>
class TscClock {
 public:
  // The present, give or take what half a look at the clock takes, some 10 ns; some 100 ns where
  // the clock is being disciplined. A thread never reads less than before, but where the clock
  // itself went back, or stood while the counter went on.
  uint64_t ns() noexcept {
    const uint32_t version = version_.load(std::memory_order_acquire);
    const uint64_t ticks = ticks_.load(std::memory_order_acquire);
    const uint64_t ns = ns_.load(std::memory_order_acquire);
    const uint64_t rate = rate_.load(std::memory_order_acquire);
    const uint64_t gone = Source::ticks() - ticks;
    const bool whole = (version & 1) == 0 && version_.load(std::memory_order_relaxed) == version;
    if (!whole || gone > most_ticks || rate == 0) [[unlikely]]
      return read_anew();
    return ns + (gone * rate >> rate_shift);
  }

  static constexpr uint64_t most_ticks = 1u << 18;  // some 100 µs

 private:
  static constexpr unsigned rate_shift = 32;
  static constexpr uint64_t least_window_ns = 10'000'000;  // for a rate to some millionths
  static constexpr uint64_t jump_ns = 1'000;  // more than the counter strays between two looks
  static constexpr int looks = 4;
  [[gnu::noinline, gnu::cold]] uint64_t read_anew() noexcept;
  void anchor(uint64_t ticks, uint64_t ns) noexcept;
  void measure(uint64_t ticks, uint64_t ns) noexcept;

  // Written by one thread at a time, while version_ is odd.
  std::atomic<uint32_t> version_{0};
  std::atomic<uint64_t> ticks_{0}, ns_{0};   // the same moment
  std::atomic<uint64_t> rate_{0};            // ns of a tick, by 2^32; 0: not known yet
  uint64_t since_ticks_ = 0, since_ns_ = 0;  // where the rate is measured from
  uint64_t measured_ = 0;                    // as rate_
  uint64_t least_look_ = most_ticks;         // ticks that a look at the clock takes
};

// The rate of a window of 10 ms or more. One that is far from that before is none: the clock stood,
// or was set.
template <typename Source>
void TscClock<Source>::measure(uint64_t ticks, uint64_t ns) noexcept {
  const uint64_t gone_ns = ns - since_ns_, gone = ticks - since_ticks_;
  if (since_ns_ != 0 && gone_ns < least_window_ns) return;
  const bool usable = since_ns_ != 0 && gone != 0 && gone_ns < 1ull << 31;
  since_ticks_ = ticks;
  since_ns_ = ns;
  if (!usable) return;
  const uint64_t rate = (gone_ns << rate_shift) / gone;
  const uint64_t off = rate > measured_ ? rate - measured_ : measured_ - rate;
  measured_ = measured_ == 0 || off < measured_ >> 10 ? rate : 0;
}

template <typename Source>
void TscClock<Source>::anchor(uint64_t ticks, uint64_t ns) noexcept {
  measure(ticks, ns);
  uint64_t rate = measured_;
  // A clock that was carried a little too far does not go back, but goes slower until the next
  // look.
  const uint64_t gone = ticks - ticks_.load(std::memory_order_relaxed);
  if (gone < 1ull << 31) {
    const uint64_t carried = ns_.load(std::memory_order_relaxed) +
                             (gone * rate_.load(std::memory_order_relaxed) >> rate_shift);
    if (carried > ns && carried - ns < jump_ns) {
      if (rate != 0) rate -= ((carried - ns) << rate_shift) / most_ticks;
      ns = carried;
    }
  }
  // Behind the odd version that a reader must see with any of them.
  rate_.store(rate, std::memory_order_release);
  ticks_.store(ticks, std::memory_order_release);
  ns_.store(ns, std::memory_order_release);
}

template <typename Source>
uint64_t TscClock<Source>::read_anew() noexcept {
  uint32_t version = version_.load(std::memory_order_relaxed);
  if ((version & 1) != 0 ||
      !version_.compare_exchange_strong(version, version + 1, std::memory_order_acquire))
    return Source::ns();  // another thread does it
  // A look that took long was interrupted, or had to fetch what it reads: it is repeated.
  uint64_t before, took, ns;
  int look = 0;
  do {
    before = Source::ticks();
    ns = Source::ns();
    took = Source::ticks() - before;
    if (took < least_look_) least_look_ = took;
  } while (took > 2 * least_look_ && ++look < looks);
  if (look < looks) {
    anchor(before + took / 2, ns);
    ns = ns_.load(std::memory_order_relaxed);
  }
  version_.store(version + 2, std::memory_order_release);
  return ns;
}

// Whether the kernel's own clock is the counter, the same on all processors: then it may be used.
bool has_steady_counter() noexcept;

}  // namespace kilim::vhca
