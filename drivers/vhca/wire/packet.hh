// SPDX-License-Identifier: BSD-3-Clause
// Where the headers of an Ethernet frame lie, and the internet checksums in them. This is the one
// reader of headers that the device has: rules, hashes and completions all ask it. Frames are
// untrusted: every offset that parse_packet() gives lies inside the frame. Pure, any thread.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/detail/base/be.hh"

namespace kilim::vhca::wire {

enum class L3 : uint8_t { none, ipv4, ipv6 };
enum class L4 : uint8_t { none, tcp, udp };

// Offsets count from the frame's first byte.
struct PacketView {
  uint16_t ether_type = 0;  // behind the tags; host order
  uint16_t vlan_tci = 0;    // of the outer tag; host order
  uint8_t tags = 0;         // 802.1Q and 802.1ad, two at most
  L3 l3 = L3::none;         // `none` too where header or lengths do not make sense
  L4 l4 = L4::none;         // `none` for fragments, and where the header is cut off
  // What rules and hashes look at. A card's parser tells these from the headers alone: whether the
  // lengths in them make sense is a field of its own, which a rule may ask for as well (NVIDIA,
  // DPDK Documentation, "Steering by Integrity Check Flags": l3_ok, l4_ok beside `ipv4 / tcp`).
  uint8_t ip_version = 0;   // 4, 6; 0: there is no such header
  bool fragment = false;    // any fragment, the first one too
  bool ip_options = false;  // options or extension headers
  uint8_t protocol = 0;     // behind extension headers
  uint32_t ports_at = 0;    // where both ports of TCP or UDP lie; 0: nowhere, of a fragment too
  uint32_t l3_at = 0;       // where the IP header begins, if there is one
  // These are set where `l3` is not `none`.
  uint32_t l4_at = 0;      // where IP's payload begins
  uint32_t l4_header = 0;  // bytes of the TCP or UDP header
  uint32_t l3_end = 0;     // where the packet ends as IP says; padding may follow
};
// Any bytes. What is not understood stays as above.
PacketView parse_packet(std::span<const std::byte> frame) noexcept;
// The same of an Ethernet header, or of an IP header of that type, which begins at `at`: of what
// lies in a tunnel (tunnel.hh). Offsets count from the frame's first byte all the same.
PacketView parse_packet_at(std::span<const std::byte> frame, uint32_t at) noexcept;
PacketView parse_ip_at(std::span<const std::byte> frame, uint16_t ether_type, uint32_t at) noexcept;

// A big-endian number at any place; the caller has checked that it lies inside.
template <std::unsigned_integral T>
T get_be(std::span<const std::byte> bytes, std::size_t at) noexcept {
  Be<T> v;
  std::memcpy(&v, bytes.data() + at, sizeof(T));
  return v.host();
}
template <std::unsigned_integral T>
void put_be(std::span<std::byte> bytes, std::size_t at, T value) noexcept {
  Be<T> v{value};
  std::memcpy(bytes.data() + at, &v, sizeof(T));
}

// The internet checksum's sum, in the byte order of memory; pieces but the last have even lengths.
uint64_t add_to_sum(uint64_t sum, std::span<const std::byte> bytes) noexcept;
// Its carries added in again; not inverted (RFC 1071).
uint16_t fold_sum(uint64_t sum) noexcept;
// What the pseudo header adds for a packet with `l4_bytes` behind its IP headers.
uint64_t pseudo_header_sum(std::span<const std::byte> frame, const PacketView&,
                           uint32_t l4_bytes) noexcept;

// IPv6 has no header checksum: fine where the header is.
bool l3_checksum_good(std::span<const std::byte> frame, const PacketView&) noexcept;
// TCP and UDP that are whole; a UDP checksum of 0 is good on IPv4 only.
bool l4_checksum_good(std::span<const std::byte> frame, const PacketView&) noexcept;
// Only what is there is written: none for IPv6's header, none where L4 is `none`.
void write_l3_checksum(std::span<std::byte> frame, const PacketView&) noexcept;
void write_l4_checksum(std::span<std::byte> frame, const PacketView&) noexcept;

}  // namespace kilim::vhca::wire
