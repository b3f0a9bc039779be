// SPDX-License-Identifier: BSD-3-Clause
// Reads addresses. Pure.
#include "vhca/core/port_ip.hh"

#include <algorithm>
#include <bit>
#include <charconv>

#include <arpa/inet.h>

#include "vhca/core/address.hh"

namespace kilim::vhca {

namespace {

constexpr uint8_t mapped_bits = 96;  // before a mapped address of version 4

bool is_station(const Gid& a) noexcept {
  const bool none = std::all_of(a.begin(), a.end(), [](uint8_t b) { return b == 0; });
  const bool link_local = a[0] == 0xfe && (a[1] & 0xc0) == 0x80;
  const bool any_four = is_ipv4(a) && (a[12] == 0 || a[12] == 0xff);
  return !none && !link_local && !any_four && !is_group_gid(a);
}

}  // namespace

std::optional<PortIp> parse_port_ip(std::string_view text) noexcept {
  const std::size_t slash = text.find('/');
  const std::string_view address = text.substr(0, slash);
  char word[INET6_ADDRSTRLEN];
  if (address.size() >= sizeof(word)) return std::nullopt;
  *std::copy(address.begin(), address.end(), word) = '\0';
  PortIp ip;
  const bool four = address.find(':') == std::string_view::npos;
  if (four) ip.address[10] = ip.address[11] = 0xff;
  if (::inet_pton(four ? AF_INET : AF_INET6, word, ip.address.data() + (four ? 12 : 0)) != 1)
    return std::nullopt;
  unsigned length = four ? 24 : 64;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  }
  if (length > (four ? 32u : 128u) || !is_station(ip.address)) return std::nullopt;
  ip.prefix = static_cast<uint8_t>(length + (four ? mapped_bits : 0));
  return ip;
}

uint32_t common_prefix(const Gid& a, const Gid& b) noexcept {
  for (std::size_t i = 0; i < a.size(); i++) {
    const auto differs = static_cast<uint8_t>(a[i] ^ b[i]);
    if (differs != 0)
      return static_cast<uint32_t>(8 * i) + static_cast<uint32_t>(std::countl_zero(differs));
  }
  return 128;
}

bool is_neighbour(const PortIp& own, const Gid& to) noexcept {
  return is_ipv4(own.address) == is_ipv4(to) && common_prefix(own.address, to) >= own.prefix;
}

}  // namespace kilim::vhca
