// SPDX-License-Identifier: BSD-3-Clause
// Rewrite: a change that a flow rule makes to a frame's outer headers. Sums that were right stay
// right. A rule's action owns a list of them. Pure values, any thread; never touches a frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kilim::flow {

struct Rewrite {
  // What a rule with such a change must name of a frame: an IP version, and TCP or UDP for ports.
  enum class Header : uint8_t {
    eth_src,
    eth_dst,
    ipv4_src,
    ipv4_dst,
    ipv6_src,
    ipv6_dst,
    port_src,
    port_dst,
    ttl,  // of IPv4, or the hop limit of IPv6
  };
  Header header = Header::eth_src;
  std::array<uint8_t, 16> value{};  // from its first byte on as the header has it
  bool adds = false;                // of `ttl`: value[0] is added modulo 256, so 255 takes one away
};

// Changes of one rule: in all cases fewer commands than the 32 that mlx5 devices take in one list.
inline constexpr std::size_t longest_rewrite = 8;

}  // namespace kilim::flow
