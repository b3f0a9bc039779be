// SPDX-License-Identifier: BSD-3-Clause
// What wires over one descriptor have in common: a frame a read, one frame waiting in a buffer,
// lengths and counters. Owner: the wire that derives from it.
#pragma once

#include <vector>

#include <sys/types.h>

#include "kilim/base/fd.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca {

class FdWire : public Wire {
 public:
  Sent send(std::span<const std::byte> frame) noexcept final;
  std::span<const std::byte> peek() noexcept final;
  void drop() noexcept final;
  [[nodiscard]] int fd() const noexcept final { return fd_.get(); }
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

  Fd fd_;
  WireCounters counters_;

 private:
  uint32_t mtu_;
  std::vector<std::byte> buffer_;
  std::size_t have_ = 0;  // bytes of the frame that peek() shows
};

// Whether a write that failed with this errno is worth another try.
bool says_busy(int error) noexcept;

}  // namespace kilim::vhca
