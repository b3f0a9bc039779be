// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/flow/toeplitz.hh"

#include <cstring>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/flow/match.hh"

namespace kilim::inline v1::flow {
namespace {

using Bytes = std::span<const std::byte>;

uint8_t byte_at(Bytes f, std::size_t at) noexcept {
  return std::to_integer<uint8_t>(f[at]);
}
uint16_t word_at(Bytes f, std::size_t at) noexcept {
  return static_cast<uint16_t>(byte_at(f, at) << 8 | byte_at(f, at + 1));
}

// Offsets of the parts that are hashed.
struct Layers {
  uint8_t version = 0;  // 4, 6; 0: no IP
  uint8_t protocol = 0;
  std::size_t addresses = 0;  // source, then destination
  std::size_t ports = 0;      // 0: none
};

Layers read_ipv4(Bytes f, std::size_t at) noexcept {
  constexpr uint16_t fragment = 0x3fff;  // more fragments, offset
  const std::size_t header = (byte_at(f, at) & 15u) * 4;
  if (byte_at(f, at) >> 4 != 4 || header < 20) return {};
  Layers l{4, byte_at(f, at + 9), at + 12, at + header};
  if ((word_at(f, at + 6) & fragment) != 0) l.ports = 0;
  return l;
}

// Walks the extension headers that say how long they are, up to that of a fragment (RFC 8200,
// section 4).
Layers read_ipv6(Bytes f, std::size_t at) noexcept {
  constexpr uint8_t hop_by_hop = 0, routing = 43, fragment = 44, destination = 60;
  if (byte_at(f, at) >> 4 != 6) return {};
  Layers l{6, byte_at(f, at + 6), at + 8, at + 40};
  bool is_fragment = false;
  while (!is_fragment && (l.protocol == hop_by_hop || l.protocol == routing ||
                          l.protocol == fragment || l.protocol == destination)) {
    if (l.ports + 8 > f.size()) break;
    is_fragment = l.protocol == fragment;
    const std::size_t bytes = is_fragment ? 8 : 8 + 8 * std::size_t{byte_at(f, l.ports + 1)};
    if (l.ports + bytes > f.size()) break;
    l.protocol = byte_at(f, l.ports);
    l.ports += bytes;
  }
  if (is_fragment) l.ports = 0;
  return l;
}

// Behind two tags at most, a customer's or a provider's.
Layers read_layers(Bytes f) noexcept {
  constexpr std::size_t untagged = 14, shortest = 18, tag = 4;
  constexpr uint16_t type_service = 0x88a8;
  if (f.size() < shortest) return {};
  std::size_t at = untagged;
  uint16_t type = word_at(f, at - 2);
  for (int tags = 0; tags < 2 && (type == type_vlan || type == type_service); tags++) {
    if (at + tag > f.size()) break;
    at += tag;
    type = word_at(f, at - 2);
  }
  Layers l;
  if (type == type_ipv4 && f.size() >= at + 20) l = read_ipv4(f, at);
  if (type == type_ipv6 && f.size() >= at + 40) l = read_ipv6(f, at);
  const bool has_ports = l.protocol == protocol_tcp || l.protocol == protocol_udp;
  if (!has_ports || l.ports + 4 > f.size()) l.ports = 0;
  return l;
}

// The rule of a protocol takes what has no ports too, as fragments: its addresses are hashed.
HashKind kind_of(const Layers& l, uint32_t types) noexcept {
  if (l.version == 0) return HashKind::none;
  const auto base = l.version == 4 ? HashKind::ipv4 : HashKind::ipv6;
  if (l.protocol == protocol_tcp || l.protocol == protocol_udp) {
    const uint32_t step = l.protocol == protocol_tcp ? 1 : 2;
    const auto deeper = static_cast<HashKind>(static_cast<uint32_t>(base) + step);
    if ((types & type_of(deeper)) != 0) return l.ports != 0 ? deeper : base;
  }
  return (types & type_of(base)) != 0 ? base : HashKind::none;
}

}  // namespace

uint32_t toeplitz(std::span<const std::byte> input, const HashKey& key) noexcept {
  KILIM_ASSERT(input.size() + 4 <= key.size());
  uint64_t window = 0;  // 32 bits of the key at the present bit, and those behind them
  for (std::size_t i = 0; i < 4; i++) window = window << 8 | key[i];
  uint32_t hash = 0;
  for (std::size_t i = 0; i < input.size(); i++) {
    window = window << 8 | key[i + 4];
    for (uint32_t bit = 0; bit < 8; bit++)
      if ((byte_at(input, i) & 0x80u >> bit) != 0)
        hash ^= static_cast<uint32_t>(window >> (8 - bit));
  }
  return hash;
}

FrameHash hash_frame(Bytes frame, uint32_t types, const HashKey& key) noexcept {
  const Layers l = read_layers(frame);
  const HashKind kind = kind_of(l, types);
  if (kind == HashKind::none) return {};
  std::byte input[36];
  const std::size_t addresses = l.version == 4 ? 8 : 32;
  std::memcpy(input, frame.data() + l.addresses, addresses);
  const bool with_ports = kind != HashKind::ipv4 && kind != HashKind::ipv6;
  if (with_ports) std::memcpy(input + addresses, frame.data() + l.ports, 4);
  return {kind, toeplitz({input, addresses + (with_ports ? 4u : 0u)}, key)};
}

}  // namespace kilim::inline v1::flow
