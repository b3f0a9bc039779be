// SPDX-License-Identifier: BSD-3-Clause
// What a completion says of the frames that most traffic is made of: TCP and UDP on IPv4 without
// options, tags or fragments. The same as describe_frame(), in fewer instructions. Pure, any
// thread; frames are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kilim/base/be.hh"
#include "kilim/prm/cqe.hh"

namespace kilim::vhca {

namespace ipv4_frame {

inline constexpr std::size_t ip_at = 14, l4_at = 34, addresses_at = 26;
inline constexpr uint8_t tcp = 6, udp = 17;

template <typename T>
[[gnu::always_inline]] inline T load(const std::byte* at) noexcept {
  T v;
  std::memcpy(&v, at, sizeof(v));
  return v;
}

// The sum of words in the byte order of memory, its carries by themselves.
struct Sum {
  uint64_t low = 0, carries = 0;
  [[gnu::always_inline]] void add(uint64_t word) noexcept {
    carries += __builtin_add_overflow(low, word, &low) ? 1u : 0u;
  }
};

// Whether the sum is that of right words (RFC 1071). Each step adds the halves of a word, with the
// carry, in its upper half.
[[gnu::always_inline]] inline bool all_ones(const Sum& s) noexcept {
  uint64_t w = 0;
  w = __builtin_add_overflow(s.low, s.carries, &w) ? w + 1 : w;
  w += w << 32 | w >> 32;
  auto u = static_cast<uint32_t>(w >> 32);
  u += u << 16 | u >> 16;
  return u >= 0xffff0000;
}

// Of at least 8 bytes.
[[gnu::always_inline]] inline void add_to(Sum& sum, const std::byte* at,
                                          std::size_t bytes) noexcept {
  const std::byte* const last = at + (bytes & ~std::size_t{7});
  for (; at != last; at += 8) sum.add(load<uint64_t>(at));
  // The rest, from the last eight bytes.
  if (const std::size_t rest = bytes & 7; rest != 0)
    sum.add(load<uint64_t>(at + rest - 8) >> (64 - 8 * rest));
}

}  // namespace ipv4_frame

// What a completion says: hds_ip_ext and l4_hdr_type_etc. 0 in the first: it is another frame, and
// nothing is said.
struct FrameWords {
  uint8_t ok = 0, type = 0;
};

[[gnu::always_inline]] inline FrameWords describe_ipv4(std::span<const std::byte> frame) noexcept {
  using namespace ipv4_frame;
  const std::byte* f = frame.data();
  constexpr uint32_t type_and_version = 0x00450008;  // 08 00 45, little endian
  if (frame.size() < l4_at + 20) return {};
  const bool plain = (load<uint32_t>(f + 12) & 0x00ffffff) == type_and_version &&
                     (load<uint16_t>(f + 20) & be16{0x3fff}.raw()) == 0;
  if (!plain) return {};
  const uint32_t total = be16::from_raw(load<uint16_t>(f + 16)).host();
  if (total < 40 || total > frame.size() - ip_at) return {};
  const auto protocol = std::to_integer<uint8_t>(f[23]);
  std::size_t covered = total - 20;  // by the checksum of the upper layer
  uint8_t type = prm::cqe::l4_udp;
  uint32_t checksum = 1;  // 0: there is none
  if (protocol == udp) {
    const uint32_t said = be16::from_raw(load<uint16_t>(f + l4_at + 4)).host();
    if (said < 8 || said > covered) return {};
    covered = said;
    checksum = load<uint16_t>(f + l4_at + 6);
  } else {
    const uint32_t header = (std::to_integer<uint32_t>(f[l4_at + 12]) >> 4) * 4;
    if (protocol != tcp || header < 20 || header > covered) return {};
    const bool ack = (f[l4_at + 13] & std::byte{0x10}) != std::byte{0};
    type = !ack                ? prm::cqe::l4_tcp
           : header == covered ? prm::cqe::l4_tcp_empty_ack
                               : prm::cqe::l4_tcp_ack;
  }
  unsigned ok = prm::cqe::l2_ok;
  const auto addresses = load<uint64_t>(f + addresses_at);
  Sum header{load<uint64_t>(f + ip_at)};
  header.add(load<uint64_t>(f + addresses_at - 4) & 0xffffffff);
  header.add(addresses);
  if (all_ones(header)) ok |= prm::cqe::l3_ok;
  Sum payload{addresses};
  payload.add(uint64_t{be16{static_cast<uint16_t>(covered)}.raw()} + be16{protocol}.raw());
  add_to(payload, f + l4_at, covered);
  if (checksum == 0 || all_ones(payload)) ok |= prm::cqe::l4_ok;
  return {static_cast<uint8_t>(ok),
          static_cast<uint8_t>(prm::cqe::l3_ipv4 << prm::cqe::l3_type_shift |
                               type << prm::cqe::l4_type_shift)};
}

}  // namespace kilim::vhca
