// SPDX-License-Identifier: BSD-3-Clause
// What a flow rule asks of a frame's headers, outer ones where nothing else is said. Numbers are in
// the host's byte order, addresses as they stand in the frame. Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace kilim::flow {

using MacAddress = std::array<uint8_t, 6>;
using Ipv4Address = std::array<uint8_t, 4>;
using Ipv6Address = std::array<uint8_t, 16>;

// A field must equal `value` in the bits that `mask` has; a mask of 0 takes anything.
template <typename T>
struct Masked {
  T value{};
  T mask{};
  friend constexpr bool operator==(const Masked&, const Masked&) noexcept = default;
};

// Every bit of a number; every bit of an address.
template <typename T>
constexpr Masked<T> exactly(T value) noexcept {
  return {value, static_cast<T>(~T{0})};
}
template <std::size_t n>
constexpr Masked<std::array<uint8_t, n>> exactly(const std::array<uint8_t, n>& value) noexcept {
  Masked<std::array<uint8_t, n>> m{value, {}};
  m.mask.fill(0xff);
  return m;
}

struct Eth {
  Masked<MacAddress> dst, src;
  Masked<uint16_t> type;  // behind a VLAN tag, if there is one
  friend constexpr bool operator==(const Eth&, const Eth&) noexcept = default;
};
// The frame has a VLAN tag (802.1Q) with this priority, CFI and number.
struct Vlan {
  Masked<uint16_t> tci;
  friend constexpr bool operator==(const Vlan&, const Vlan&) noexcept = default;
};
struct Ipv4 {
  Masked<Ipv4Address> src, dst;
  Masked<uint8_t> protocol;  // 1 ICMP, 6 TCP, 17 UDP, 47 GRE
  Masked<uint8_t> tos;
  friend constexpr bool operator==(const Ipv4&, const Ipv4&) noexcept = default;
};
struct Ipv6 {
  Masked<Ipv6Address> src, dst;
  Masked<uint8_t> protocol;  // the next header; 58 ICMPv6
  Masked<uint8_t> traffic_class;
  Masked<uint32_t> label;  // 20 bits
  friend constexpr bool operator==(const Ipv6&, const Ipv6&) noexcept = default;
};
struct Ports {
  Masked<uint16_t> src, dst;
  friend constexpr bool operator==(const Ports&, const Ports&) noexcept = default;
};
// A tunnel's header behind the outer headers; many devices know none.
struct Tunnel {
  enum class Kind : uint8_t { vxlan, gre };
  Kind kind = Kind::vxlan;
  Masked<uint32_t> id;  // VXLAN: the VNI, 24 bits; GRE: the key
  friend constexpr bool operator==(const Tunnel&, const Tunnel&) noexcept = default;
};

// The headers inside a tunnel.
struct Inner {
  std::optional<Ipv4> ipv4;
  std::optional<Ipv6> ipv6;
  std::optional<Ports> tcp;
  std::optional<Ports> udp;
  friend constexpr bool operator==(const Inner&, const Inner&) noexcept = default;
};

// All layers that are named must be there and match. Nothing named: every frame.
struct Match {
  std::optional<Eth> eth;
  std::optional<Vlan> vlan;
  std::optional<Ipv4> ipv4;
  std::optional<Ipv6> ipv6;
  std::optional<Ports> tcp;
  std::optional<Ports> udp;
  std::optional<Tunnel> tunnel;
  std::optional<Inner> inner;  // with `tunnel`
  friend constexpr bool operator==(const Match&, const Match&) noexcept = default;
};

inline constexpr uint16_t type_ipv4 = 0x0800, type_ipv6 = 0x86dd, type_vlan = 0x8100;
inline constexpr uint8_t protocol_tcp = 6, protocol_udp = 17;
inline constexpr uint16_t port_vxlan = 4789;  // UDP (RFC 7348, section 5)

}  // namespace kilim::flow
