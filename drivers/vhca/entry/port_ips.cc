// SPDX-License-Identifier: BSD-3-Clause
// Addresses of a port, from where they are written.
#include "vhca/entry/port_ips.hh"

#include <algorithm>
#include <bit>
#include <cstring>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "vhca/core/address.hh"
#include "vhca/wire/make.hh"

namespace kilim::vhca::entry {

namespace {

Gid gid_of(const sockaddr* a) noexcept {
  Gid gid{};
  if (a->sa_family == AF_INET6) {
    std::memcpy(gid.data(), &reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr, gid.size());
  } else {
    gid[10] = gid[11] = 0xff;
    std::memcpy(gid.data() + 12, &reinterpret_cast<const sockaddr_in*>(a)->sin_addr, 4);
  }
  return gid;
}

// The set bits of a netmask, of the 128.
uint8_t prefix_of(const sockaddr* mask) noexcept {
  const bool four = mask->sa_family == AF_INET;
  const Gid bits = gid_of(mask);
  uint32_t n = four ? 96 : 0;
  for (std::size_t i = four ? 12 : 0; i < bits.size(); i++)
    n += static_cast<uint32_t>(std::popcount(bits[i]));
  return static_cast<uint8_t>(n);
}

void add(std::vector<PortIp>& list, const PortIp& ip) {
  const auto same = [&](const PortIp& known) { return known.address == ip.address; };
  if (list.size() < most_ips && std::none_of(list.begin(), list.end(), same)) list.push_back(ip);
}

void add_of_interface(std::vector<PortIp>& list, std::string_view name) {
  ifaddrs* all = nullptr;
  if (name.empty() || ::getifaddrs(&all) != 0) return;
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_netmask == nullptr || name != i->ifa_name) continue;
    if (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6) continue;
    const Gid gid = gid_of(i->ifa_addr);
    const bool link_local = gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
    // The port's own link-local GID is there anyhow; another station's is not for it to use.
    if (!link_local) add(list, {gid, prefix_of(i->ifa_netmask)});
  }
  ::freeifaddrs(all);
}

}  // namespace

std::vector<PortIp> ips_of(const DeviceSpec& config) {
  std::vector<PortIp> list;
  for (const std::string& text : config.ips) {
    if (std::optional<PortIp> ip = parse_port_ip(text)) add(list, *ip);
  }
  if (config.wires.empty()) {
    Gid six{};
    six[15] = 1;
    add(list, {Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}, 96 + 8});
    add(list, {six, 128});
    return list;
  }
  const std::string& wire = config.wires.front();
  for (const std::string& text : wire::ips_of_wire(wire)) {
    if (std::optional<PortIp> ip = parse_port_ip(text)) add(list, *ip);
  }
  add_of_interface(list, wire::interface_of_wire(wire));
  add_of_interface(list, config.netdev);
  return list;
}

std::string following_ip(const std::string& text, uint32_t k) {
  std::optional<PortIp> ip = parse_port_ip(text);
  if (!ip || k == 0) return text;
  ip->address[15] = static_cast<uint8_t>(ip->address[15] + k);
  char word[INET6_ADDRSTRLEN];
  const bool four = is_ipv4(ip->address);
  ::inet_ntop(four ? AF_INET : AF_INET6, ip->address.data() + (four ? 12 : 0), word, sizeof(word));
  return std::string(word) + "/" + std::to_string(ip->prefix - (four ? 96 : 0));
}

}  // namespace kilim::vhca::entry
