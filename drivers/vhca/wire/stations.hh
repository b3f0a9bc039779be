// SPDX-License-Identifier: BSD-3-Clause
// Around a wire that is an Ethernet of which no kernel has the port's addresses: the port answers
// for them itself, and asks who has a neighbour's (address_resolution.hh). Its frames take the way
// of all others, through decorators inside.
#pragma once

#include <memory>
#include <utility>

#include "vhca/wire/address_resolution.hh"
#include "vhca/wire/decorator.hh"

namespace kilim::vhca::wire {

class Stations final : public Decorator {
 public:
  explicit Stations(std::unique_ptr<Wire> inner) : Decorator(std::move(inner)) {}

  // A question is shown like any other frame: queues of raw packets may want it too.
  std::span<const std::byte> peek() noexcept override;
  // What the frame asked is answered when it goes.
  void drop() noexcept override;
  void publish(const Mac& mac, std::span<const Gid> gids) noexcept override;
  // Not known: it is asked for, and may be known at a later call.
  std::optional<Mac> find(const Gid& gid) noexcept override;

 private:
  AddressResolution table_;
  AddressResolution::Frame answer_;
  std::size_t answer_bytes_ = 0;
  bool seen_ = false;  // the frame that peek() shows was looked at
};

}  // namespace kilim::vhca::wire
