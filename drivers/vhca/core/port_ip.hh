// SPDX-License-Identifier: BSD-3-Clause
// An IP address of a port, as users name it. A value, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "vhca/core/spec.hh"

namespace kilim::vhca {

struct PortIp {
  Gid address{};       // one of version 4 is mapped into version 6
  uint8_t prefix = 0;  // bits of its network, of the 128
  bool operator==(const PortIp&) const = default;
};

// "10.0.0.1/24", "fd00::1/64"; without a length 24 or 64. Nothing: it is no address of one station,
// is a link-local one, which follows from the port's MAC, or is longer than its kind.
std::optional<PortIp> parse_port_ip(std::string_view text) noexcept;
// How many leading bits both have in common.
uint32_t common_prefix(const Gid&, const Gid&) noexcept;
// Whether `to` lies in the network of `own`.
bool is_neighbour(const PortIp& own, const Gid& to) noexcept;

}  // namespace kilim::vhca
