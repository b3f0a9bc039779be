// SPDX-License-Identifier: BSD-3-Clause
// Headers of a packet that is to be cut into TCP segments, read as a device reads them: what mbufs
// say of lengths is the application's word. Owner and limits as of tx_request.hh.
#include "net/kilim/tx_request.hh"

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "kilim/detail/base/be.hh"

namespace kilim::net {
namespace {

constexpr uint16_t type_ipv4 = 0x0800, type_ipv6 = 0x86dd, type_vlan = 0x8100, type_qinq = 0x88a8;
constexpr uint8_t hop_by_hop = 0, tcp = 6, routing = 43, destination_options = 60;
constexpr uint32_t ipv4_bytes = 20, ipv6_bytes = 40, tcp_bytes = 20;

using Head = std::span<const std::byte>;

uint32_t byte_at(Head h, uint32_t at) noexcept {
  return std::to_integer<uint32_t>(h[at]);
}
uint16_t word_at(Head h, uint32_t at) noexcept {
  be16 v;
  std::memcpy(&v, h.data() + at, sizeof v);
  return v.host();
}

// The offset of TCP behind an IP header at `at`; 0: there is none. A fragment is not cut further.
uint32_t behind_ipv4(Head h, uint32_t at) noexcept {
  if (h.size() < at + ipv4_bytes || byte_at(h, at) >> 4 != 4) return 0;
  const uint32_t bytes = (byte_at(h, at) & 15) * 4;
  const bool fragment = (word_at(h, at + 6) & 0x3fff) != 0;
  return bytes < ipv4_bytes || fragment || byte_at(h, at + 9) != tcp ? 0 : at + bytes;
}
uint32_t behind_ipv6(Head h, uint32_t at) noexcept {
  if (h.size() < at + ipv6_bytes || byte_at(h, at) >> 4 != 6) return 0;
  uint32_t next = byte_at(h, at + 6);
  for (at += ipv6_bytes; next == hop_by_hop || next == routing || next == destination_options;) {
    if (h.size() < at + 8) return 0;
    next = byte_at(h, at);
    at += (byte_at(h, at + 1) + 1) * 8;
  }
  return next == tcp ? at : 0;
}

}  // namespace

bool begins_with_tcp(const rte_mbuf& packet, uint32_t bytes) noexcept {
  std::array<std::byte, queue::max_inlined> room;
  if (bytes < queue::ether_header_bytes || bytes > room.size()) return false;
  const void* const first = rte_pktmbuf_read(&packet, 0, bytes, room.data());
  if (first == nullptr) return false;
  const Head h{static_cast<const std::byte*>(first), bytes};
  uint32_t at = queue::ether_header_bytes - 2;
  uint16_t type = word_at(h, at);
  for (int tags = 0; tags < 2 && (type == type_vlan || type == type_qinq) && at + 6 <= bytes;
       tags++)
    type = word_at(h, at += queue::vlan_tag_bytes);
  at += 2;
  const uint32_t l4 = type == type_ipv4   ? behind_ipv4(h, at)
                      : type == type_ipv6 ? behind_ipv6(h, at)
                                          : 0;
  if (l4 == 0 || h.size() < l4 + tcp_bytes) return false;
  const uint32_t header = (byte_at(h, l4 + 12) >> 4) * 4;
  return header >= tcp_bytes && l4 + header == bytes;
}

}  // namespace kilim::net
