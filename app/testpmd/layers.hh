// SPDX-License-Identifier: BSD-3-Clause
// The places of the headers of a frame, as far as its first piece has them whole. Pure functions
// over untrusted bytes, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/base/be.hh"

namespace kilim::testpmd {

inline constexpr uint16_t type_ipv4 = 0x0800, type_ipv6 = 0x86dd, type_vlan = 0x8100,
                          type_qinq = 0x88a8, type_arp = 0x0806;
inline constexpr uint8_t protocol_icmp = 1, protocol_tcp = 6, protocol_udp = 17;
// Bytes of headers of a UDP frame over IPv4 without options.
inline constexpr uint32_t udp_header_bytes = 14 + 20 + 8;

inline uint16_t get16(const std::byte* at) noexcept {
  be16 v;
  std::memcpy(&v, at, sizeof v);
  return v.host();
}
inline uint32_t get32(const std::byte* at) noexcept {
  be32 v;
  std::memcpy(&v, at, sizeof v);
  return v.host();
}
inline void put16(std::byte* at, uint32_t v) noexcept {
  const be16 b{static_cast<uint16_t>(v)};
  std::memcpy(at, &b, sizeof b);
}
inline void put32(std::byte* at, uint32_t v) noexcept {
  const be32 b{v};
  std::memcpy(at, &b, sizeof b);
}

// The sum of RFC 1071 over bytes that follow an even number of others; not folded.
inline uint64_t sum_of(std::span<const std::byte> bytes) noexcept {
  uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 1 < bytes.size(); i += 2) sum += get16(bytes.data() + i);
  if (i < bytes.size()) sum += static_cast<uint64_t>(bytes[i]) << 8;
  return sum;
}
// What stands in a checksum's field.
inline uint16_t fold(uint64_t sum) noexcept {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

// Offsets; 0: there is no such header, or it is not whole.
struct Layers {
  uint16_t type = 0;      // behind all tags
  uint8_t protocol = 0;   // of TCP, UDP, ICMP over IPv4, or TCP and UDP right behind IPv6's header
  bool fragment = false;  // the first one, too
  bool later = false;     // a fragment that is not the first: none of L4's header is in it
  uint32_t l2 = 0;        // end of addresses, tags and type; 0: no frame
  uint32_t l3 = 0;        // IPv4's or IPv6's header
  uint32_t l4 = 0;        // behind it; `protocol` says what
  uint32_t end = 0;       // of the IP packet: bytes behind it are padding
};

inline void find_ipv4(std::span<const std::byte> f, Layers& l) noexcept {
  if (f.size() < l.l2 + 20 || static_cast<uint8_t>(f[l.l2]) >> 4 != 4) return;
  const std::byte* ip = f.data() + l.l2;
  const uint32_t bytes = (static_cast<uint32_t>(ip[0]) & 15) * 4;
  if (bytes < 20 || f.size() < l.l2 + bytes) return;
  l.l3 = l.l2;
  l.fragment = (get16(ip + 6) & 0x3fff) != 0;
  l.later = (get16(ip + 6) & 0x1fff) != 0;
  l.protocol = static_cast<uint8_t>(ip[9]);
  l.l4 = l.l2 + bytes;
  l.end = l.l2 + get16(ip + 2);
}

inline void find_ipv6(std::span<const std::byte> f, Layers& l) noexcept {
  if (f.size() < l.l2 + 40 || static_cast<uint8_t>(f[l.l2]) >> 4 != 6) return;
  l.l3 = l.l2;
  l.protocol = static_cast<uint8_t>(f[l.l2 + 6]);
  l.l4 = l.l2 + 40;
  l.end = l.l4 + get16(f.data() + l.l2 + 4);
}

inline Layers layers_of(std::span<const std::byte> f) noexcept {
  Layers l;
  if (f.size() < 14) return l;
  l.l2 = 14;
  l.type = get16(f.data() + 12);
  while ((l.type == type_vlan || l.type == type_qinq) && f.size() >= l.l2 + 4) {
    l.type = get16(f.data() + l.l2 + 2);
    l.l2 += 4;
  }
  if (l.type == type_ipv4) find_ipv4(f, l);
  if (l.type == type_ipv6) find_ipv6(f, l);
  return l;
}

}  // namespace kilim::testpmd
