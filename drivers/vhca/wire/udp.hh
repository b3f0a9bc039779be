// SPDX-License-Identifier: BSD-3-Clause
// Wire `udp:HOST:PORT:HOST:PORT`: a frame a datagram from our address (first) to one neighbour's
// (second), numeric, IPv6 in brackets. The same as QEMU's `-netdev dgram` speaks. Datagrams of
// others are left out. Nothing on the way waits: what finds no room is lost.
#pragma once

#include <memory>
#include <string_view>

#include "kilim/base/result.hh"
#include "vhca/wire/fd_wire.hh"

namespace kilim::vhca {

class UdpWire final : public FdWire {
 public:
  // EINVAL: other than two numeric addresses of one family; others as bind(2) and connect(2).
  static Result<std::unique_ptr<Wire>> create(std::string_view addresses);

  static constexpr uint32_t udp_mtu = 9000;  // bytes of our frames; IP cuts datagrams as it must

 protected:
  Put put(std::span<const std::byte> frame) noexcept override;
  ssize_t take(std::span<std::byte> into) noexcept override;

 private:
  explicit UdpWire(Fd socket) : FdWire(static_cast<Fd&&>(socket), udp_mtu) {}
};

}  // namespace kilim::vhca
