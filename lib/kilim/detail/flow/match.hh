// SPDX-License-Identifier: BSD-3-Clause
// What a flow rule asks of a frame's headers, outer ones where nothing else is said. Numbers are in
// the host's byte order, addresses as they stand in the frame. Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace kilim::inline v1::flow {

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
// The frame's first VLAN tag, with this priority, CFI and number.
struct Vlan {
  enum class Kind : uint8_t { customer, service };  // types 0x8100 (802.1Q), 0x88a8 (802.1ad)
  Masked<uint16_t> tci;
  Kind kind = Kind::customer;
  std::optional<bool> more = std::nullopt;  // whether a second tag, of type 0x8100, follows
  friend constexpr bool operator==(const Vlan&, const Vlan&) noexcept = default;
};
struct Ipv4 {
  Masked<Ipv4Address> src, dst;
  Masked<uint8_t> protocol;  // 1 ICMP, 6 TCP, 17 UDP, 47 GRE
  Masked<uint8_t> tos;
  Masked<uint8_t> ttl{};
  std::optional<bool> fragment = std::nullopt;  // of a larger packet, the first one too; or whole
  friend constexpr bool operator==(const Ipv4&, const Ipv4&) noexcept = default;
};
struct Ipv6 {
  Masked<Ipv6Address> src, dst;
  Masked<uint8_t> protocol;  // the next header; 58 ICMPv6
  Masked<uint8_t> traffic_class;
  Masked<uint32_t> label;  // 20 bits
  Masked<uint8_t> hop_limit{};
  std::optional<bool> fragment = std::nullopt;  // there is a fragment header, or none
  friend constexpr bool operator==(const Ipv6&, const Ipv6&) noexcept = default;
};
struct Ports {
  Masked<uint16_t> src, dst;
  Masked<uint16_t> flags{};  // TCP's nine, from FIN, bit 0, on; UDP has none
  friend constexpr bool operator==(const Ports&, const Ports&) noexcept = default;
};
// With ipv4 the header of ICMP, with ipv6 that of ICMPv6; the IP layer names its protocol.
struct Icmp {
  Masked<uint8_t> type, code;
  Masked<uint16_t> ident{}, sequence{};  // of echo requests and replies
  friend constexpr bool operator==(const Icmp&, const Icmp&) noexcept = default;
};
// IPsec's encapsulated payload (RFC 4303); the IP layer names its protocol, 50, or `udp` its port,
// 4500 (RFC 3948).
struct Esp {
  Masked<uint32_t> spi;
  friend constexpr bool operator==(const Esp&, const Esp&) noexcept = default;
};
// A tunnel's header behind the outer headers; many devices know none.
struct Tunnel {
  enum class Kind : uint8_t { vxlan, gre };
  Kind kind = Kind::vxlan;
  Masked<uint32_t> id;          // VXLAN: the VNI, 24 bits; GRE: the key
  Masked<uint16_t> protocol{};  // GRE's, an Ethernet type
  Masked<uint8_t> present{};    // GRE's bits: 8 there is a checksum, 2 a key, 1 a sequence number
  friend constexpr bool operator==(const Tunnel&, const Tunnel&) noexcept = default;
};

// The headers inside a tunnel.
struct Inner {
  std::optional<Ipv4> ipv4;
  std::optional<Ipv6> ipv6;
  std::optional<Ports> tcp;
  std::optional<Ports> udp;
  std::optional<Eth> eth = std::nullopt;  // VXLAN has them, GRE of protocol 0x6558 too
  std::optional<Vlan> vlan = std::nullopt;
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
  bool untagged = false;       // the frame has no VLAN tag of either kind
  std::optional<Icmp> icmp = std::nullopt;
  std::optional<Esp> esp = std::nullopt;
  friend constexpr bool operator==(const Match&, const Match&) noexcept = default;
};

inline constexpr uint16_t type_ipv4 = 0x0800, type_ipv6 = 0x86dd, type_vlan = 0x8100;
inline constexpr uint8_t protocol_tcp = 6, protocol_udp = 17;
inline constexpr uint8_t protocol_icmp = 1, protocol_icmpv6 = 58, protocol_gre = 47,
                         protocol_esp = 50;
inline constexpr uint16_t port_vxlan = 4789;  // UDP (RFC 7348, section 5)
inline constexpr uint16_t port_esp = 4500;    // UDP (RFC 3948, section 2.1)

}  // namespace kilim::inline v1::flow
