// SPDX-License-Identifier: BSD-3-Clause
// How much a look into a datagram socket asks for: one frame by recvmsg(2), or a row by
// recvmmsg(2), which looks once more in the kernel for a frame that is not there. One costs less
// where frames come one at a time, a row where several wait. Owner: the wire.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace kilim::vhca::wire {

class Looks {
 public:
  [[nodiscard]] bool by_row() const noexcept { return by_row_; }
  // What the look before the next one found. Frames that come look after look are a row, sooner or
  // later: each row that was one frame doubles how many of them it takes to ask for a row again.
  void found(std::size_t frames) noexcept {
    if (by_row_) {
      if (frames > 1) patience_ = least;
      if (frames != 1) return;
      by_row_ = false;
      alone_ = 0;
      patience_ = std::min(patience_ * 2, most);
    } else if (frames == 0) {
      alone_ = 0;
      patience_ = least;
    } else {
      by_row_ = ++alone_ >= patience_;
    }
  }

 private:
  static constexpr uint32_t least = 2, most = 64;
  bool by_row_ = false;
  uint32_t alone_ = 0;  // frames that came one a look, without one that found none
  uint32_t patience_ = least;
};

}  // namespace kilim::vhca::wire
