// SPDX-License-Identifier: BSD-3-Clause
// What looks over a send queue's shoulder at each doorbell: a recorder, a linter (kilim/diag).
// Compiled in where asserts are, or with KILIM_WATCH; otherwise a queue has no place for it and
// commit() no code. Owner: the queue's worker. Never allocates, blocks or logs by itself.
#pragma once

#include <cstdint>

#include "kilim/queue/geometry.hh"

namespace kilim::queue {

#if defined(KILIM_WATCH) || !defined(NDEBUG)
inline constexpr bool watched = true;
#else
inline constexpr bool watched = false;
#endif

struct Watch {
  // Before the doorbell record is written: blocks [first, end) are complete in the ring.
  using Doorbell = void (*)(Watch&, const SqGeometry&, uint32_t first, uint32_t end) noexcept;
  // WQEs before block `until` have come to an end, by a completion or by a reset of the queue.
  using Ended = void (*)(Watch&, uint32_t until) noexcept;
  Doorbell doorbell = nullptr;
  Ended ended = nullptr;  // null: need not know
};

// A queue's place for its watch.
class WatchSlot {
 public:
  bool set(Watch* w) noexcept {
    watch_ = w;
    return true;
  }
  void ring(const SqGeometry& sq, uint32_t first, uint32_t end) const noexcept {
    if (watch_ != nullptr) watch_->doorbell(*watch_, sq, first, end);
  }
  void ended(uint32_t until) const noexcept {
    if (watch_ != nullptr && watch_->ended != nullptr) watch_->ended(*watch_, until);
  }

 private:
  Watch* watch_ = nullptr;
};
class NoWatchSlot {
 public:
  bool set(Watch*) noexcept { return false; }
  void ring(const SqGeometry&, uint32_t, uint32_t) const noexcept {}
  void ended(uint32_t) const noexcept {}
};

}  // namespace kilim::queue
