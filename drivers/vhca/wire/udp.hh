// SPDX-License-Identifier: BSD-3-Clause
// Wire `udp:HOST:PORT:HOST:PORT`: a frame a datagram from our address (first) to one neighbour's
// (second), numeric, IPv6 in brackets. The same as QEMU's `-netdev dgram` speaks. Datagrams of
// others are left out. Nothing on the way waits: what finds no room at the neighbour is lost, and
// counted there; what our kernel drops on the way out, as its queue to the interface is full, is
// counted here (ENOBUFS, which IP_RECVERR lets it tell: ip(7)). Frames of one length go to the
// kernel in one piece, which it cuts where it can (UDP_SEGMENT). They come one by one: the kernel
// counts a lost message of UDP_GRO once, however many frames it was
// (doc/decisions/0082-every-lost-frame-has-a-counter.md).
#pragma once

#include <memory>
#include <string_view>

#include "kilim/detail/base/result.hh"
#include "vhca/wire/row_wire.hh"

namespace kilim::vhca::wire {

class UdpWire final : public RowWire {
 public:
  // EINVAL: other than two numeric addresses of one family; others as bind(2) and connect(2).
  static Result<std::unique_ptr<Wire>> create(std::string_view addresses);
  ~UdpWire() override { (void)flush(); }
  UdpWire(const UdpWire&) = delete;
  UdpWire& operator=(const UdpWire&) = delete;

  // With what the socket had no room for.
  [[nodiscard]] const WireCounters& counters() noexcept override;

  static constexpr uint32_t udp_mtu = 9000;  // bytes of our frames; IP cuts datagrams as it must

 protected:
  std::size_t put(std::span<const Frame>) noexcept override;
  void forget_news() noexcept override;
  bool admit(msghdr&, Arrival&) noexcept override;

 private:
  // One byte more than a frame has: what fills it is too long.
  explicit UdpWire(Fd socket)
      : RowWire(static_cast<Fd&&>(socket), udp_mtu, {fetched, max_frame(udp_mtu) + 1}) {}
  // As sendmmsg(2), of frames: how many are gone.
  std::size_t send_segments(std::span<const Frame>) noexcept;

  bool cuts_ = true;         // the kernel has not refused yet to cut what we send
  uint32_t drops_seen_ = 0;  // of the socket, as SO_MEMINFO says (Linux, net/core/sock.c)
};

}  // namespace kilim::vhca::wire
