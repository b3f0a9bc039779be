// SPDX-License-Identifier: BSD-3-Clause
// Frames for tests, and checksums computed in another way than the device does it: 16 bits at a
// time, as RFC 1071 describes. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace kilim::test {

using Bytes = std::vector<std::byte>;

struct FrameSpec {
  bool ipv6 = false;
  bool tcp = true;
  int tags = 0;
  std::size_t payload = 100;
  uint8_t dst_first = 0x02;
  uint8_t tcp_flags = 0x18;  // ACK and PSH
  uint32_t seq = 1000;
  uint16_t fragment = 0;  // IPv4 flags and offset
};

inline void put16(Bytes& b, std::size_t at, std::size_t v) {
  b[at] = static_cast<std::byte>(v >> 8);
  b[at + 1] = static_cast<std::byte>(v);
}
inline uint32_t get16(const Bytes& b, std::size_t at) {
  return std::to_integer<uint32_t>(b[at]) << 8 | std::to_integer<uint32_t>(b[at + 1]);
}

// Where the IP header of a frame with these tags begins, and what lies behind it.
inline std::size_t l3_of(const FrameSpec& s) {
  return 14 + 4 * static_cast<std::size_t>(s.tags);
}
inline std::size_t l4_of(const FrameSpec& s) {
  return l3_of(s) + (s.ipv6 ? 40u : 20u);
}
inline std::size_t payload_of(const FrameSpec& s) {
  return l4_of(s) + (s.tcp ? 20u : 8u);
}

inline uint32_t sum16(const Bytes& b, std::size_t from, std::size_t to) {
  uint32_t sum = 0;
  for (std::size_t i = from; i < to; i += 2) {
    sum += std::to_integer<uint32_t>(b[i]) << 8;
    if (i + 1 < to) sum += std::to_integer<uint32_t>(b[i + 1]);
  }
  return sum;
}
inline uint16_t folded(uint32_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}
// All ones where the checksum in the frame is right; the frame ends with its packet.
inline uint16_t l3_check(const Bytes& b, const FrameSpec& s) {
  return folded(sum16(b, l3_of(s), l3_of(s) + 20));
}
inline uint16_t l4_check(const Bytes& b, const FrameSpec& s) {
  std::size_t addresses = l3_of(s) + (s.ipv6 ? 8u : 12u);
  uint32_t sum = sum16(b, addresses, addresses + (s.ipv6 ? 32u : 8u));
  sum += static_cast<uint32_t>(b.size() - l4_of(s)) + (s.tcp ? 6u : 17u);
  return folded(sum + sum16(b, l4_of(s), b.size()));
}
inline std::size_t l4_checksum_at(const FrameSpec& s) {
  return l4_of(s) + (s.tcp ? 16u : 6u);
}

// A whole frame with right checksums.
inline Bytes make_frame(const FrameSpec& s) {
  Bytes b(payload_of(s) + s.payload, std::byte{0});
  for (std::size_t i = 0; i < 12; ++i) b[i] = static_cast<std::byte>(i + 0x10);
  b[0] = static_cast<std::byte>(s.dst_first);
  for (int t = 0; t < s.tags; ++t) {
    put16(b, 12 + 4 * static_cast<std::size_t>(t), 0x8100);
    put16(b, 14 + 4 * static_cast<std::size_t>(t), 0x2064);
  }
  std::size_t l3 = l3_of(s), l4 = l4_of(s);
  put16(b, l3 - 2, s.ipv6 ? 0x86dd : 0x0800);
  for (std::size_t i = l3 + 8; i < l4; ++i) b[i] = static_cast<std::byte>(i * 3);
  auto protocol = s.tcp ? std::byte{6} : std::byte{17};
  if (s.ipv6) {
    b[l3] = std::byte{0x60};
    put16(b, l3 + 4, b.size() - l4);
    b[l3 + 6] = protocol;
  } else {
    b[l3] = std::byte{0x45};
    put16(b, l3 + 2, b.size() - l3);
    put16(b, l3 + 4, 0xfffe);  // the identification wraps soon
    put16(b, l3 + 6, s.fragment);
    b[l3 + 9] = protocol;
    put16(b, l3 + 10, 0);
    put16(b, l3 + 10, ~folded(sum16(b, l3, l4)) & 0xffffu);
  }
  put16(b, l4, 5001);
  put16(b, l4 + 2, 80);
  if (s.tcp) {
    put16(b, l4 + 4, s.seq >> 16);
    put16(b, l4 + 6, s.seq);
    b[l4 + 12] = std::byte{0x50};
    b[l4 + 13] = static_cast<std::byte>(s.tcp_flags);
  } else {
    put16(b, l4 + 4, b.size() - l4);
  }
  for (std::size_t i = payload_of(s); i < b.size(); ++i) b[i] = static_cast<std::byte>(i * 31 + 7);
  put16(b, l4_checksum_at(s), ~l4_check(b, s) & 0xffffu);
  return b;
}

inline bool same(std::span<const std::byte> a, const Bytes& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), b.size()) == 0;
}

}  // namespace kilim::test
