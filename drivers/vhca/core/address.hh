// SPDX-License-Identifier: BSD-3-Clause
// The addresses of an adapter's port, and whether an address leads there. A value, fixed when the
// adapter is made: any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kilim/prm/av_seg.hh"
#include "vhca/core/spec.hh"

namespace kilim::vhca {

inline constexpr std::size_t most_ips = 8;  // of a port, of both versions

struct Addresses {
  Mac mac{};         // of the port; the link-local GID follows from it
  Gid gid{};         // entry 1 of the GID table; all zero: none
  uint16_t lid = 0;  // of an InfiniBand port; 0: the port speaks RoCE
  // IP addresses of the port, the next entries of the table as in the kernel's (add_netdev_ips() in
  // core/roce_gid_mgmt.c); one of version 4 is mapped into version 6.
  std::array<Gid, most_ips> ips{};
  uint8_t ip_count = 0;
  // The number of this process among several that are one adapter with these addresses. A queue
  // pair's number says whose it is.
  std::optional<uint8_t> member{};
  bool roce = true;  // false: the GID table is empty
};

inline constexpr unsigned member_shift = 16;    // of a queue pair's number
inline constexpr uint32_t most_members = 0xff;  // 0xffffff is no queue pair's number
// Whether a queue pair of the adapter that has this number is this process's.
constexpr bool is_own_queue(const Addresses& own, uint32_t qpn) noexcept {
  return !own.member || qpn >> member_shift == *own.member;
}

// Whether a GID stands for an IPv4 address (RFC 4291, 2.5.5.2): RoCE v2 puts it into an IPv4 header
// (IBTA annex A17, "RoCEv2").
constexpr bool is_ipv4(const Gid& g) noexcept {
  for (std::size_t i = 0; i < 10; i++)
    if (g[i] != 0) return false;
  return g[10] == 0xff && g[11] == 0xff;
}
// A multicast address of either version (rdma_is_multicast_addr() in the kernel's ib_addr.h).
constexpr bool is_group_gid(const Gid& g) noexcept {
  return g[0] == 0xff || (is_ipv4(g) && g[12] >> 4 == 0xe);
}
// The MAC address to which frames for a group go: RFC 2464, 7, and RFC 1112, 6.4.
constexpr Mac group_mac(const Gid& g) noexcept {
  if (!is_ipv4(g)) return {0x33, 0x33, g[12], g[13], g[14], g[15]};
  return {0x01, 0x00, 0x5e, static_cast<uint8_t>(g[13] & 0x7f), g[14], g[15]};
}

// The GID of index `index` of the port with this MAC: 0 is the link-local RoCE v2 one. False: none.
bool port_gid(const Mac&, uint32_t index, Gid&) noexcept;
// The GID of index `index` of an adapter's port: behind the link-local one comes the configured
// one, then those of its IP addresses.
bool port_gid(const Addresses&, uint32_t index, Gid&) noexcept;
// Whether any entry of the port's GID table is this one.
bool is_own_gid(const Addresses&, const Gid&) noexcept;
// Whether an address, or a path to this queue pair, ends in this process. InfiniBand goes by LID,
// and by GID where one is named.
bool leads_here(const Addresses&, const prm::AvSeg&) noexcept;
bool leads_here(const Addresses&, const QpAttr::Path&, Qpn) noexcept;

}  // namespace kilim::vhca
