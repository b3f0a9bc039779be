// SPDX-License-Identifier: BSD-3-Clause
// A frame a read.
#include "vhca/wire/fd_wire.hh"

#include <cerrno>
#include <utility>

namespace kilim::vhca::wire {

namespace {
constexpr int bad_frames_at_once = 64;  // a sender of nonsense does not keep the engine
}

// One byte more than a frame has: what fills it is too long.
FdWire::FdWire(Fd fd, uint32_t mtu) : fd_(std::move(fd)), mtu_(mtu), buffer_(max_frame(mtu) + 1) {}

Wire::Sent FdWire::send(std::span<const std::byte> frame) noexcept {
  if (frame.size() < ether_header_bytes || frame.size() > max_frame(mtu_)) {
    counters_.tx_bad_length++;
    return Sent::refused;
  }
  switch (pulled_ ? Put::lost : put(frame)) {
    case Put::busy:
      counters_.tx_busy++;
      return Sent::busy;
    case Put::lost:
      counters_.tx_lost++;
      break;
    case Put::done:
      break;
  }
  counters_.tx_frames++;
  counters_.tx_bytes += frame.size();
  return Sent::taken;
}

std::span<const std::byte> FdWire::peek() noexcept {
  for (int i = 0; have_ == 0 && !pulled_ && i < bad_frames_at_once; i++) {
    ssize_t n = take(buffer_);
    if (n < 0) break;
    auto bytes = static_cast<std::size_t>(n);
    if (bytes < ether_header_bytes)
      counters_.rx_too_short++;
    else if (bytes > max_frame(mtu_))
      counters_.rx_too_long++;
    else
      have_ = bytes;
  }
  return {buffer_.data(), have_};
}

void FdWire::drop() noexcept {
  if (peek().empty()) return;
  counters_.rx_frames++;
  counters_.rx_bytes += have_;
  have_ = 0;
}

bool says_busy(int error) noexcept {
  return error == EAGAIN || error == ENOBUFS || error == EINTR || error == ENOMEM;
}

}  // namespace kilim::vhca::wire
