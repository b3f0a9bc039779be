// SPDX-License-Identifier: BSD-3-Clause
// What wires over one descriptor have in common: a frame a read, one frame waiting in a buffer,
// lengths and counters. A descriptor whose number leads elsewhere by now, since the program closed
// it and opened a file of its own, is a cable that is pulled: looked for once a turn. Owner: the
// wire that derives from it.
#pragma once

#include <vector>

#include <sys/types.h>

#include "vhca/core/own_fd.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

class FdWire : public Wire {
 public:
  Sent send(std::span<const std::byte> frame) noexcept final;
  std::span<const std::byte> peek() noexcept final;
  void drop() noexcept final;
  void cork(bool on) noexcept final {
    if (on) pulled_ = !fd_.ours();
  }
  [[nodiscard]] int fd() const noexcept final { return pulled_ ? -1 : fd_.get(); }
  [[nodiscard]] uint32_t mtu() const noexcept final { return mtu_; }
  [[nodiscard]] const WireCounters& counters() noexcept override { return counters_; }

 protected:
  enum class Put : uint8_t {
    done,
    busy,  // again later: Sent::busy
    lost,  // gone, as on a cable: Sent::taken, and counted
  };
  FdWire(Fd fd, uint32_t mtu);
  // Neither blocks. take(): bytes of the next frame, negative: none now.
  virtual Put put(std::span<const std::byte> frame) noexcept = 0;
  virtual ssize_t take(std::span<std::byte> into) noexcept = 0;

  OwnFd fd_;
  WireCounters counters_;

 private:
  bool pulled_ = false;
  uint32_t mtu_;
  std::vector<std::byte> buffer_;
  std::size_t have_ = 0;  // bytes of the frame that peek() shows
};

// Whether a write that failed with this errno is worth another try.
bool says_busy(int error) noexcept;

}  // namespace kilim::vhca::wire
