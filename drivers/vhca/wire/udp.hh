// SPDX-License-Identifier: BSD-3-Clause
// Wire `udp:HOST:PORT:HOST:PORT`: a frame a datagram from our address (first) to one neighbour's
// (second), numeric, IPv6 in brackets. The same as QEMU's `-netdev dgram` speaks. Datagrams of
// others are left out. Nothing on the way waits: what finds no room is lost. Frames of one length
// go to the kernel in one piece, which it cuts, and come so, where it can (UDP_SEGMENT, UDP_GRO).
#pragma once

#include <memory>
#include <string_view>

#include "kilim/base/result.hh"
#include "vhca/wire/row_wire.hh"

namespace kilim::vhca {

class UdpWire final : public RowWire {
 public:
  // EINVAL: other than two numeric addresses of one family; others as bind(2) and connect(2).
  static Result<std::unique_ptr<Wire>> create(std::string_view addresses);
  ~UdpWire() override { (void)flush(); }
  UdpWire(const UdpWire&) = delete;
  UdpWire& operator=(const UdpWire&) = delete;

  static constexpr uint32_t udp_mtu = 9000;  // bytes of our frames; IP cuts datagrams as it must

 protected:
  std::size_t put(std::span<const Frame>) noexcept override;
  bool admit(msghdr&, Arrival&) noexcept override;

 private:
  UdpWire(Fd socket, Inlet inlet) : RowWire(static_cast<Fd&&>(socket), udp_mtu, inlet) {}
  // As sendmmsg(2), of frames: how many are gone.
  std::size_t send_segments(std::span<const Frame>) noexcept;

  bool cuts_ = true;  // the kernel has not refused yet to cut what we send
};

}  // namespace kilim::vhca
