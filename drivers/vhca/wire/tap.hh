// SPDX-License-Identifier: BSD-3-Clause
// Wire `tap:NAME`: the other end of a TAP interface of this machine, made where it is missing
// (needs CAP_NET_ADMIN) and gone with the wire then. What its kernel sends is what comes.
#pragma once

#include <memory>
#include <string_view>

#include "kilim/detail/base/result.hh"
#include "vhca/wire/fd_wire.hh"
#include "vhca/wire/interface_drops.hh"

namespace kilim::vhca::wire {

class TapWire final : public FdWire {
 public:
  // ENAMETOOLONG, EINVAL: no name of an interface; EPERM: needs CAP_NET_ADMIN; EBUSY: somebody else
  // is at its other end.
  static Result<std::unique_ptr<Wire>> create(std::string_view interface);
  // Makes a wire that carries frames of this MTU, whatever the interface has now.
  static Result<std::unique_ptr<Wire>> create_for(std::string_view interface, uint32_t mtu);
  [[nodiscard]] uint32_t interface() const noexcept override { return index_; }
  [[nodiscard]] const WireCounters& counters() noexcept override;

 protected:
  Put put(std::span<const std::byte> frame) noexcept override;
  ssize_t take(std::span<std::byte> into) noexcept override;

 private:
  TapWire(Fd tap, uint32_t mtu, uint32_t index);

  uint32_t index_;          // of the interface
  InterfaceDrops dropped_;  // frames that found the queue of /dev/net/tun full
};

}  // namespace kilim::vhca::wire
