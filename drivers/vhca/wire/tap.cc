// SPDX-License-Identifier: BSD-3-Clause
// A TAP interface without offloads: the kernel finishes its frames before we see them.
#include "vhca/wire/tap.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace kilim::vhca::wire {

Result<std::unique_ptr<Wire>> TapWire::create(std::string_view name) {
  return create_for(name, 0);
}

Result<std::unique_ptr<Wire>> TapWire::create_for(std::string_view name, uint32_t at_least) {
  ifreq request{};
  if (name.size() >= sizeof(request.ifr_name)) {
    return Error{ENAMETOOLONG, "tap: an interface's name has at most 15 characters"};
  }
  std::memcpy(request.ifr_name, name.data(), name.size());
  // A name with '%' would be a pattern.
  if (name.find_first_of("%/ ") != std::string_view::npos) {
    return Error{EINVAL, "tap: this is no name of an interface"};
  }
  Fd tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tap) return Error{errno, "tap: /dev/net/tun cannot be opened"};
  // Whole frames, without the 4 bytes of "packet information" before each (the kernel's
  // tuntap.rst).
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(tap.get(), TUNSETIFF, &request) != 0) {
    return Error{errno, "tap: the interface cannot be made or is in use"};
  }
  Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return Error{errno, "tap: no socket can be made"};
  ifreq state = request;
  if (ioctl(socket.get(), SIOCGIFFLAGS, &state) == 0) {
    // An interface that was made for us may be opened without the right to set it up: then whoever
    // made it does that.
    state.ifr_flags = static_cast<short>(state.ifr_flags | IFF_UP);
    if (ioctl(socket.get(), SIOCSIFFLAGS, &state) != 0 && errno != EPERM) {
      return Error{errno, "tap: the interface cannot be set up"};
    }
  }
  if (ioctl(socket.get(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu <= 0) {
    return Error{errno, "tap: the interface does not tell its MTU"};
  }
  const auto mtu = std::max(static_cast<uint32_t>(request.ifr_mtu), at_least);
  return std::unique_ptr<Wire>(
      new TapWire(std::move(tap), mtu, ::if_nametoindex(request.ifr_name)));
}

TapWire::TapWire(Fd tap, uint32_t mtu, uint32_t index)
    : FdWire(std::move(tap), mtu), index_(index), dropped_(index) {}

const WireCounters& TapWire::counters() noexcept {
  counters_.rx_kernel_drops = dropped_.read();
  return counters_;
}

FdWire::Put TapWire::put(std::span<const std::byte> frame) noexcept {
  ssize_t n = write(fd_.get(), frame.data(), frame.size());
  if (n >= 0) return Put::done;
  return says_busy(errno) ? Put::busy : Put::lost;  // EIO: the interface is down
}

ssize_t TapWire::take(std::span<std::byte> into) noexcept {
  return read(fd_.get(), into.data(), into.size());
}

}  // namespace kilim::vhca::wire
