// SPDX-License-Identifier: BSD-3-Clause
// Whether a client's poll that has found something hands the wires to the adapter's thread. That
// pays where the client then waits elsewhere and the thread takes the next frame, and costs a
// system call or two each time where the client only polls on. Which it is, the last times tell.
// Owner: WireGuard, with the adapter's lock.
#pragma once

#include <cstdint>

namespace kilim::vhca::entry {

class GuardPolicy {
 public:
  // How often in a row handing over was in vain until it is left, and is tried once in so many.
  static constexpr uint32_t vain_max = 8, tries_once_in = 64;

  // A client has found something: whether the thread guards the wires now.
  bool hands_over() noexcept {
    if (vain_ >= vain_max && ++left_ % tries_once_in != 0) return false;
    taken_ = false;
    return true;
  }
  // The thread has taken a frame.
  void taken() noexcept { taken_ = true; }
  // A client polls in vain again and takes the wires back.
  void taken_back() noexcept { vain_ = taken_ ? 0 : vain_ + 1; }
  // Clients have stopped to poll.
  void stopped() noexcept { vain_ = 0; }

 private:
  bool taken_ = false;
  uint32_t vain_ = 0, left_ = 0;
};

}  // namespace kilim::vhca::entry
