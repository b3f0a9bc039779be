// SPDX-License-Identifier: BSD-3-Clause
// Watch: an observer of a send queue, called at each doorbell: a recorder or a linter
// (kilim/detail/diag). Code compiled with asserts, or with KILIM_WATCH, calls it; other code does
// not, and spends no instruction on it. A queue has the place for it always: a program and the
// library may differ. Owner: the queue's worker. Never allocates, blocks or logs by itself.
#pragma once

#include <cstdint>

#include "kilim/detail/queue/geometry.hh"

namespace kilim::inline v1::queue {

#if defined(KILIM_WATCH) || !defined(NDEBUG)
constexpr bool watched = true;
#else
constexpr bool watched = false;
#endif

// The observer's two functions; derived classes set them and add their state.
struct Watch {
  // Called before the doorbell record is written: blocks [first, end) of the ring are written.
  using Doorbell = void (*)(Watch&, const SqGeometry&, uint32_t first, uint32_t end) noexcept;
  // Called when WQEs before block `until` have ended, by a completion or a reset.
  using Ended = void (*)(Watch&, uint32_t until) noexcept;
  Doorbell doorbell = nullptr;
  Ended ended = nullptr;  // null: not called
};

// A queue's place for its watch.
class WatchSlot {
 public:
  // Sets the observer; null: none. False: the calling code was compiled without observers.
  bool set(Watch* w) noexcept {
    watch_ = watched ? w : nullptr;
    return watched;
  }
  void ring(const SqGeometry& sq, uint32_t first, uint32_t end) const noexcept {
    if (watched && watch_ != nullptr) watch_->doorbell(*watch_, sq, first, end);
  }
  void ended(uint32_t until) const noexcept {
    if (watched && watch_ != nullptr && watch_->ended != nullptr) watch_->ended(*watch_, until);
  }

 private:
  Watch* watch_ = nullptr;
};

}  // namespace kilim::inline v1::queue
