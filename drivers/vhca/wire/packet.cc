// SPDX-License-Identifier: BSD-3-Clause
// Headers and checksums of frames. Pure, any thread; never reads behind the frame.
#include "vhca/wire/packet.hh"

namespace kilim::vhca::wire {

namespace {

constexpr uint16_t type_ipv4 = 0x0800, type_ipv6 = 0x86dd, type_vlan = 0x8100, type_qinq = 0x88a8;
constexpr uint8_t proto_hop_by_hop = 0, proto_tcp = 6, proto_udp = 17, proto_routing = 43,
                  proto_fragment = 44, proto_destination = 60;
// Bytes of headers, and where in them the checksum lies (RFC 8200, 768, 9293).
constexpr uint32_t ipv6_header = 40, udp_header = 8, tcp_header = 20;
constexpr uint32_t udp_checksum_at = 6, tcp_checksum_at = 16;

uint8_t byte_at(std::span<const std::byte> f, std::size_t at) noexcept {
  return std::to_integer<uint8_t>(f[at]);
}

void parse_l4(std::span<const std::byte> f, PacketView& v) noexcept {
  uint32_t room = v.l3_end - v.l4_at;
  if (v.fragment) return;
  if (v.protocol == proto_tcp && room >= tcp_header) {
    uint32_t header = (byte_at(f, v.l4_at + 12) >> 4) * 4u;
    if (header < tcp_header || header > room) return;
    v.l4 = L4::tcp;
    v.l4_header = header;
  } else if (v.protocol == proto_udp && room >= udp_header) {
    uint16_t bytes = get_be<uint16_t>(f, v.l4_at + 4);
    if (bytes < udp_header || bytes > room) return;
    v.l4 = L4::udp;
    v.l4_header = udp_header;
  }
}

// Ports that lie in the frame at `at`, whatever the lengths in its headers say.
void find_ports(std::span<const std::byte> f, std::size_t at, PacketView& v) noexcept {
  constexpr std::size_t ports_bytes = 4;
  const bool has_ports = v.protocol == proto_tcp || v.protocol == proto_udp;
  if (!v.fragment && has_ports && at + ports_bytes <= f.size())
    v.ports_at = static_cast<uint32_t>(at);
}

// RFC 791.
void parse_ipv4(std::span<const std::byte> f, PacketView& v) noexcept {
  if (f.size() < v.l3_at + 20 || byte_at(f, v.l3_at) >> 4 != 4) return;
  uint32_t header = (byte_at(f, v.l3_at) & 15u) * 4u;
  if (header < 20) return;
  v.ip_version = 4;
  v.ip_options = header > 20;
  // "More fragments", or an offset.
  v.fragment = (get_be<uint16_t>(f, v.l3_at + 6) & 0x3fff) != 0;
  v.protocol = byte_at(f, v.l3_at + 9);
  find_ports(f, v.l3_at + header, v);
  uint32_t total = get_be<uint16_t>(f, v.l3_at + 2);
  if (total < header || v.l3_at + total > f.size()) return;
  v.l3 = L3::ipv4;
  v.l4_at = v.l3_at + header;
  v.l3_end = v.l3_at + total;
  parse_l4(f, v);
}

// RFC 8200: headers in a chain, each but the fragment header says its length in units of 8 bytes
// without the first. Of other kinds none can be passed over: they count as payload, as does one
// that is cut off. What is behind a fragment header is not looked at. Where the payload begins.
uint32_t pass_extensions(std::span<const std::byte> f, PacketView& v) noexcept {
  uint32_t at = v.l3_at + ipv6_header;
  while (!v.fragment && (v.protocol == proto_hop_by_hop || v.protocol == proto_routing ||
                         v.protocol == proto_fragment || v.protocol == proto_destination)) {
    if (at + 8 > f.size()) break;
    uint32_t bytes = v.protocol == proto_fragment ? 8u : (byte_at(f, at + 1) + 1u) * 8u;
    if (at + bytes > f.size()) break;
    v.fragment = v.protocol == proto_fragment;
    v.ip_options = true;
    v.protocol = byte_at(f, at);
    at += bytes;
  }
  return at;
}

void parse_ipv6(std::span<const std::byte> f, PacketView& v) noexcept {
  if (f.size() < v.l3_at + ipv6_header || byte_at(f, v.l3_at) >> 4 != 6) return;
  v.ip_version = 6;
  v.protocol = byte_at(f, v.l3_at + 6);
  const uint32_t payload_at = pass_extensions(f, v);
  find_ports(f, payload_at, v);
  uint32_t end = v.l3_at + ipv6_header + get_be<uint16_t>(f, v.l3_at + 4);
  if (end > f.size() || payload_at > end) return;
  v.l3 = L3::ipv6;
  v.l4_at = payload_at;
  v.l3_end = end;
  parse_l4(f, v);
}

uint32_t checksum_at(const PacketView& v) noexcept {
  return v.l4_at + (v.l4 == L4::tcp ? tcp_checksum_at : udp_checksum_at);
}

// What the checksum of the packet's TCP or UDP part covers: UDP says its length itself.
std::span<const std::byte> l4_bytes(std::span<const std::byte> f, const PacketView& v) noexcept {
  std::size_t bytes = v.l3_end - v.l4_at;
  if (v.l4 == L4::udp) bytes = get_be<uint16_t>(f, v.l4_at + 4);
  return f.subspan(v.l4_at, bytes);
}

std::span<const std::byte> ipv4_header(std::span<const std::byte> f, const PacketView& v) noexcept {
  return f.subspan(v.l3_at, v.l4_at - v.l3_at);
}

}  // namespace

PacketView parse_packet(std::span<const std::byte> frame) noexcept {
  return parse_packet_at(frame, 0);
}

PacketView parse_packet_at(std::span<const std::byte> frame, uint32_t begin) noexcept {
  PacketView v;
  if (frame.size() < std::size_t{begin} + 14) return v;
  std::size_t at = std::size_t{begin} + 12;
  v.ether_type = get_be<uint16_t>(frame, at);
  while ((v.ether_type == type_vlan || v.ether_type == type_qinq) && v.tags < 2 &&
         at + 6 <= frame.size()) {
    if (v.tags++ == 0) v.vlan_tci = get_be<uint16_t>(frame, at + 2);
    at += 4;
    v.ether_type = get_be<uint16_t>(frame, at);
  }
  v.l3_at = static_cast<uint32_t>(at + 2);
  if (v.ether_type == type_ipv4) parse_ipv4(frame, v);
  if (v.ether_type == type_ipv6) parse_ipv6(frame, v);
  return v;
}

PacketView parse_ip_at(std::span<const std::byte> frame, uint16_t ether_type,
                       uint32_t at) noexcept {
  PacketView v;
  v.ether_type = ether_type;
  v.l3_at = at;
  if (ether_type == type_ipv4) parse_ipv4(frame, v);
  if (ether_type == type_ipv6) parse_ipv6(frame, v);
  return v;
}

// Sums of 32-bit words fold to the same 16 bits (RFC 1071, "Parallel Summation").
uint64_t add_to_sum(uint64_t sum, std::span<const std::byte> bytes) noexcept {
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    sum += word;
    sum += sum < word ? 1 : 0;  // the carry comes around
  }
  sum = (sum & 0xffffffff) + (sum >> 32);  // there is room for more, the callers' too
  if ((left & 4) != 0) {
    uint32_t word;
    std::memcpy(&word, p, 4);
    sum += word;
    p += 4;
  }
  if ((left & 2) != 0) {
    uint16_t word;
    std::memcpy(&word, p, 2);
    sum += word;
    p += 2;
  }
  return (left & 1) != 0 ? sum + std::to_integer<uint8_t>(*p) : sum;
}

uint16_t fold_sum(uint64_t sum) noexcept {
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffffffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

uint64_t pseudo_header_sum(std::span<const std::byte> frame, const PacketView& v,
                           uint32_t l4_bytes) noexcept {
  // Both addresses, which lie side by side, the length and the protocol (RFC 9293, RFC 8200).
  bool four = v.l3 == L3::ipv4;
  uint64_t sum = add_to_sum(0, frame.subspan(v.l3_at + (four ? 12u : 8u), four ? 8 : 32));
  return sum + be32{l4_bytes}.raw() + be32{v.protocol}.raw();
}

bool l3_checksum_good(std::span<const std::byte> frame, const PacketView& v) noexcept {
  if (v.l3 != L3::ipv4) return v.l3 == L3::ipv6;
  return fold_sum(add_to_sum(0, ipv4_header(frame, v))) == 0xffff;
}

bool l4_checksum_good(std::span<const std::byte> frame, const PacketView& v) noexcept {
  if (v.l4 == L4::none) return false;
  if (v.l4 == L4::udp && get_be<uint16_t>(frame, checksum_at(v)) == 0) return v.l3 == L3::ipv4;
  std::span<const std::byte> bytes = l4_bytes(frame, v);
  uint64_t sum = pseudo_header_sum(frame, v, static_cast<uint32_t>(bytes.size()));
  return fold_sum(add_to_sum(sum, bytes)) == 0xffff;
}

void write_l3_checksum(std::span<std::byte> frame, const PacketView& v) noexcept {
  if (v.l3 != L3::ipv4) return;
  put_be<uint16_t>(frame, v.l3_at + 10, 0);
  auto sum = static_cast<uint16_t>(~fold_sum(add_to_sum(0, ipv4_header(frame, v))));
  std::memcpy(frame.data() + v.l3_at + 10, &sum, sizeof(sum));
}

void write_l4_checksum(std::span<std::byte> frame, const PacketView& v) noexcept {
  if (v.l4 == L4::none) return;
  put_be<uint16_t>(frame, checksum_at(v), 0);
  std::span<const std::byte> bytes = l4_bytes(frame, v);
  uint64_t pseudo = pseudo_header_sum(frame, v, static_cast<uint32_t>(bytes.size()));
  auto sum = static_cast<uint16_t>(~fold_sum(add_to_sum(pseudo, bytes)));
  if (v.l4 == L4::udp && sum == 0) sum = 0xffff;  // 0 would mean that there is none (RFC 768)
  std::memcpy(frame.data() + checksum_at(v), &sum, sizeof(sum));
}

}  // namespace kilim::vhca::wire
