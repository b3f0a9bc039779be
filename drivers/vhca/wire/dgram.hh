// SPDX-License-Identifier: BSD-3-Clause
// Wire `dgram:OURS:THEIRS`: a frame a datagram between two unix sockets, ours (a file, made here)
// and one neighbour's. QEMU's `-netdev dgram` with `type=unix` speaks the same, so a guest's
// network card may be the neighbour, and either side may start first. Datagrams of others are left
// out, and the sockets lie in folders of this user's alone (own_files.hh).
#pragma once

#include <memory>
#include <string_view>

#include <sys/socket.h>
#include <sys/un.h>

#include "kilim/detail/base/result.hh"
#include "vhca/wire/fd_wire.hh"

namespace kilim::vhca::wire {

class DgramWire final : public FdWire {
 public:
  // "OURS:THEIRS". EINVAL: other than two names; EACCES, ENOTDIR: of their folders; EADDRINUSE: our
  // socket has an owner who lives, or another file lies there.
  static Result<std::unique_ptr<Wire>> create(std::string_view names);
  ~DgramWire() override;
  DgramWire(const DgramWire&) = delete;
  DgramWire& operator=(const DgramWire&) = delete;

  static constexpr uint32_t dgram_mtu = 9000;  // bytes; sockets know of none

 protected:
  Put put(std::span<const std::byte> frame) noexcept override;
  ssize_t take(std::span<std::byte> into) noexcept override;

 private:
  DgramWire(Fd socket, const sockaddr_un& ours, const sockaddr_un& theirs);

  sockaddr_un ours_, theirs_;
};

}  // namespace kilim::vhca::wire
