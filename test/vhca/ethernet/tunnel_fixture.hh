// SPDX-License-Identifier: BSD-3-Clause
// Frames in VXLAN and GRE for tests, built by hand around frames of frames_fixture.hh. Pure, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../wire/frames_fixture.hh"

namespace kilim::test {

// How a frame lies in another. `other`: UDP to a port that no parser knows, eight bytes of header;
// `ip`: GRE of an IP packet without its Ethernet header.
enum class Carrier : uint8_t { vxlan, gre, gre_ip, other };

struct TunnelSpec {
  Carrier carrier = Carrier::vxlan;
  bool outer6 = false;
  FrameSpec inner{};
  uint32_t id = 0x123456;  // VNI or key
  bool key = true;         // GRE has one
  bool udp_sum = false;    // the outer UDP header has a checksum
};

inline bool has_udp(const TunnelSpec& s) {
  return s.carrier == Carrier::vxlan || s.carrier == Carrier::other;
}
inline constexpr std::size_t outer_l3 = 14;
inline std::size_t outer_l4(const TunnelSpec& s) {
  return outer_l3 + (s.outer6 ? 40u : 20u);
}
// Where the inner frame begins; of `gre_ip` its Ethernet header would have.
inline std::size_t inner_at(const TunnelSpec& s) {
  const std::size_t header = has_udp(s) ? 16 : s.key ? 8 : 4;
  return outer_l4(s) + header - (s.carrier == Carrier::gre_ip ? l3_of(s.inner) : 0);
}
inline std::size_t outer_udp_sum_at(const TunnelSpec& s) {
  return outer_l4(s) + 6;
}

inline void put32(Bytes& to, std::size_t at, uint32_t v) {
  put16(to, at, v >> 16);
  put16(to, at + 2, v & 0xffff);
}

inline void put_outer_ip(Bytes& to, const TunnelSpec& s, uint16_t id) {
  const std::size_t l4 = outer_l4(s);
  for (std::size_t i = outer_l3 + 8; i < l4; i++) to[i] = static_cast<std::byte>(i * 5);
  put16(to, 12, s.outer6 ? 0x86dd : 0x0800);
  const auto protocol = has_udp(s) ? std::byte{17} : std::byte{47};
  if (s.outer6) {
    to[outer_l3] = std::byte{0x60};
    put16(to, outer_l3 + 4, to.size() - l4);
    to[outer_l3 + 6] = protocol;
    return;
  }
  to[outer_l3] = std::byte{0x45};
  put16(to, outer_l3 + 2, to.size() - outer_l3);
  put16(to, outer_l3 + 4, id);
  to[outer_l3 + 9] = protocol;
  put16(to, outer_l3 + 10, 0);
  put16(to, outer_l3 + 10, ~folded(sum16(to, outer_l3, l4)) & 0xffffu);
}

inline void put_outer_udp(Bytes& to, const TunnelSpec& s) {
  const std::size_t l4 = outer_l4(s);
  put16(to, l4, 0xc001);
  put16(to, l4 + 2, s.carrier == Carrier::vxlan ? 4789 : 7777);
  put16(to, l4 + 4, to.size() - l4);
  put32(to, l4 + 8, 0x08000000);
  put32(to, l4 + 12, s.id << 8);
  if (!s.udp_sum) return;
  const std::size_t addresses = outer_l3 + (s.outer6 ? 8u : 12u);
  uint32_t sum = sum16(to, addresses, addresses + (s.outer6 ? 32u : 8u));
  sum += static_cast<uint32_t>(to.size() - l4) + 17;
  const uint32_t check = ~folded(sum + sum16(to, l4, to.size())) & 0xffffu;
  put16(to, outer_udp_sum_at(s), check == 0 ? 0xffff : check);
}

inline void put_gre(Bytes& to, const TunnelSpec& s) {
  const std::size_t l4 = outer_l4(s);
  put16(to, l4, s.key ? 0x2000 : 0);
  const uint32_t ip = s.inner.ipv6 ? 0x86dd : 0x0800;
  put16(to, l4 + 2, s.carrier == Carrier::gre_ip ? ip : 0x6558);
  if (s.key) put32(to, l4 + 4, s.id);
}

// The tunnel's frame around this inner one, with right sums outside.
inline Bytes wrap(const TunnelSpec& s, const Bytes& inner, uint16_t id = 0x7000) {
  const std::size_t skip = s.carrier == Carrier::gre_ip ? l3_of(s.inner) : 0;
  Bytes to(inner_at(s) + skip, std::byte{0});
  for (std::size_t i = 0; i < 12; i++) to[i] = static_cast<std::byte>(i + 0x30);
  to[0] = std::byte{2};
  to.insert(to.end(), inner.begin() + static_cast<long>(skip), inner.end());
  if (!has_udp(s)) put_gre(to, s);
  put_outer_ip(to, s, id);
  if (has_udp(s)) put_outer_udp(to, s);
  return to;
}
inline Bytes make_tunnel(const TunnelSpec& s) {
  return wrap(s, make_frame(s.inner));
}

}  // namespace kilim::test
