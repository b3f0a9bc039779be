// SPDX-License-Identifier: BSD-3-Clause
// What the invariant CRC leaves out.
#include "vhca/transport/icrc.hh"

#include <algorithm>
#include <array>
#include <cstring>

#include "vhca/transport/roce.hh"
#include "vhca/wire/crc32.hh"

namespace kilim::vhca::transport {

namespace {

constexpr std::size_t udp_header_bytes = 8, bth_mutable_at = 4;
constexpr std::size_t longest_ip_header = 60;

}  // namespace

uint32_t icrc_of(std::span<const std::byte> frame, const wire::PacketView& v) noexcept {
  // Eight bytes stand for the local route header that Ethernet does not have.
  std::array<std::byte, 8 + longest_ip_header + udp_header_bytes + sizeof(roce::Bth)> head;
  std::size_t ip = v.l4_at - v.l3_at;
  if (ip > longest_ip_header) return 0;
  constexpr std::byte ones{0xff};
  std::fill_n(head.begin(), 8, ones);
  std::byte* h = head.data() + 8;
  std::size_t copied = ip + udp_header_bytes + sizeof(roce::Bth);
  std::memcpy(h, frame.data() + v.l3_at, copied);
  if (v.l3 == wire::L3::ipv4) {
    h[1] = h[8] = h[10] = h[11] = ones;  // type of service, time to live, checksum
  } else {
    h[0] |= std::byte{0x0f};  // traffic class, flow label, hop limit
    h[1] = h[2] = h[3] = h[7] = ones;
  }
  h[ip + 6] = h[ip + 7] = ones;  // UDP checksum
  h[ip + udp_header_bytes + bth_mutable_at] = ones;
  std::size_t rest = v.l3_at + copied;
  uint32_t crc = wire::crc32_add(~0u, {head.data(), 8 + copied});
  return ~wire::crc32_add(crc, frame.subspan(rest, v.l3_end - icrc_bytes - rest));
}

void write_icrc(std::span<std::byte> frame, const wire::PacketView& v) noexcept {
  uint32_t crc = icrc_of(frame, v);
  std::memcpy(frame.data() + v.l3_end - icrc_bytes, &crc, icrc_bytes);
}

bool icrc_good(std::span<const std::byte> frame, const wire::PacketView& v) noexcept {
  uint32_t crc;
  std::memcpy(&crc, frame.data() + v.l3_end - icrc_bytes, icrc_bytes);
  return crc == icrc_of(frame, v);
}

}  // namespace kilim::vhca::transport
