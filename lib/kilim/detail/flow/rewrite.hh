// SPDX-License-Identifier: BSD-3-Clause
// Rewrite: a change that a flow rule makes to a frame's outer headers. Sums that were right stay
// right. A rule's action owns a list of them. Pure values, any thread; never touches a frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kilim::inline v1::flow {

struct Rewrite {
  // What a rule with such a change must name of a frame: an IP version, a VLAN tag for its number,
  // TCP or UDP for ports, TCP for what only TCP has.
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
    dscp,
    vlan_id,  // of the first tag
    eth_type,
    tcp_seq,
    tcp_ack,
    tcp_flags,
  };
  Header header = Header::eth_src;
  // From its first byte on as the header has it. A header that is no whole number of bytes stands
  // at the lower end of its bytes: a DSCP in one, a VLAN number and TCP's flags in two.
  std::array<uint8_t, 16> value{};
  bool adds = false;  // to headers of at most 32 bits, without a carry: to `ttl` 255 takes one away
  // Which bits of the header change: so many behind the first `skipped`, from its highest bit on.
  // The bits of `value` are taken from the same place. 0 bits: all of them.
  uint8_t skipped = 0, bits = 0;
};

// Bits of a header.
constexpr uint8_t width_of(Rewrite::Header header) noexcept {
  constexpr uint8_t widths[] = {48, 48, 32, 32, 128, 128, 16, 16, 8, 6, 12, 16, 32, 32, 9};
  return widths[static_cast<std::size_t>(header)];
}
static_assert(width_of(Rewrite::Header::ttl) == 8 && width_of(Rewrite::Header::tcp_flags) == 9);

// Changes of one rule: in all cases fewer commands than the 32 that mlx5 devices take in one list.
inline constexpr std::size_t longest_rewrite = 8;

// Bytes of the headers that a rule puts in front of a frame.
inline constexpr std::size_t longest_prepend = 128;

}  // namespace kilim::inline v1::flow
