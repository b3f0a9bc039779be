// SPDX-License-Identifier: BSD-3-Clause
// What the headers of a frame must be, as comparisons that a kernel's packet filter can make too:
// how a steering rule is said to a wire that has a kernel behind it (kernel_rules.hh). Plain
// values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kilim::vhca::wire {

struct FrameMatch {
  enum class From : uint8_t {
    link,       // bytes of the Ethernet header, tag included
    network,    // of the IP header
    transport,  // of the header behind it; none of a fragment but the first
    type,       // the Ethernet type behind the tag, two bytes
    protocol,   // what IP carries behind its extension headers, one byte
    fragment,   // one byte: 1, if there is a fragment header of IPv6
  };
  static constexpr std::size_t most = 16;  // bytes of one comparison
  struct Compare {
    From from = From::link;
    uint8_t at = 0;
    uint8_t bytes = 0;
    bool differs = false;  // the bytes must not be the value
    std::array<uint8_t, most> mask{}, value{};
    bool operator==(const Compare&) const = default;
  };

  // All of them are true of a frame that matches; none: every frame does. A frame that is too short
  // for one of them does not.
  std::vector<Compare> compares;
};

}  // namespace kilim::vhca::wire
