// SPDX-License-Identifier: BSD-3-Clause
// Frames of a port by the kind of their destination address, as the network interface of a card
// tells of them. Owner: the port; adapter's lock held. A plain value. Frames are untrusted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kilim::vhca {

struct CastCounters {
  struct Cast {
    uint64_t packets = 0, bytes = 0;  // without FCS
  };
  Cast unicast, multicast, broadcast;

  // A frame that has at least its destination address.
  void add(std::span<const std::byte> frame) noexcept {
    constexpr std::byte group{1}, all{0xff};
    const auto address = frame.first(6);
    const bool everybody =
        std::all_of(address.begin(), address.end(), [](std::byte b) { return b == all; });
    const bool several = (address[0] & group) != std::byte{0};
    Cast& to = everybody ? broadcast : several ? multicast : unicast;
    to.packets++;
    to.bytes += frame.size();
  }
};

}  // namespace kilim::vhca
