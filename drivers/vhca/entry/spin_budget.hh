// SPDX-License-Identifier: BSD-3-Clause
// How many turns that find nothing the adapter's thread takes before it sleeps. Turns pay where the
// client runs on another processor: its next doorbell is found without a trap. Where the two share
// one, the client cannot ring before the thread sleeps, so each turn only makes it wait. Which it
// is, the turns tell: they find something, or they do not. Owner: the thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kilim::vhca::entry {

class SpinBudget {
 public:
  static constexpr uint32_t least = 4, most = 128;
  // How often turns were in vain until as many as ever are tried once more.
  static constexpr uint32_t tries_once_in = 32;

  // Whether to take one more turn after one that found nothing.
  bool take() noexcept {
    if (turns_ < budget_) {
      turns_++;
      return true;
    }
    if (turns_ != over) {
      turns_ = over;
      budget_ = ++in_vain_ % tries_once_in == 0 ? most : std::max(budget_ / 2, least);
    }
    return false;
  }
  // A turn found something, which counts for the budget where take() led to it.
  void found() noexcept {
    if (turns_ != 0 && turns_ != over) budget_ = most;
    turns_ = 0;
  }
  // The thread was called while it slept.
  void restart() noexcept { turns_ = 0; }

 private:
  static constexpr uint32_t over = UINT32_MAX;  // the budget was used, and is again after found()
  uint32_t turns_ = 0;
  uint32_t budget_ = most;
  uint32_t in_vain_ = 0;
};

// Turns behind a doorbell and turns behind a frame have a budget each. After a doorbell the next
// work comes from a wire, whose sender may need this very processor; after a frame it comes from
// the client. So turns may pay after one of them and not after the other.
class SpinBudgets {
 public:
  bool take() noexcept { return now().take(); }
  // A turn found something; `rang`: a doorbell, among other things.
  void found(bool rang) noexcept {
    now().found();
    behind_doorbell_ = rang;
    now().restart();
  }
  void restart() noexcept { now().restart(); }

 private:
  SpinBudget& now() noexcept { return behind_doorbell_ ? doorbell_ : frame_; }

  SpinBudget doorbell_, frame_;
  bool behind_doorbell_ = false;
};

}  // namespace kilim::vhca::entry
