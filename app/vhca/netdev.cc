// SPDX-License-Identifier: BSD-3-Clause
// Linux, Documentation/networking/tuntap.rst, netdevice(7), capabilities(7).
#include "netdev.hh"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include <endian.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sysfs_mount.hh"
#include "vhca/core/address.hh"

namespace kilim::app {
namespace {

void name_request(ifreq& request, const char* name) {
  std::snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
}

bool set_flags(int socket, const char* name, short flags) {
  ifreq request{};
  name_request(request, name);
  if (::ioctl(socket, SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags = static_cast<short>(request.ifr_flags | flags);
  return ::ioctl(socket, SIOCSIFFLAGS, &request) == 0;
}

// What a port of 100 Gb/s says (a TAP says 10 Mb/s). Kernels that cannot set it leave it so.
void set_speed(int socket, const char* name) {
  ethtool_cmd command{};
  command.cmd = ETHTOOL_SSET;
  command.duplex = DUPLEX_FULL;
  command.port = PORT_FIBRE;
  ::ethtool_cmd_speed_set(&command, SPEED_100000);
  ifreq request{};
  name_request(request, name);
  request.ifr_data = reinterpret_cast<char*>(&command);
  (void)::ioctl(socket, SIOCETHTOOL, &request);
}

// netdevice(7), ipv6(7).
struct Ioctl6 {
  in6_addr address;
  uint32_t prefix;
  int index;
};

bool set_ip4(int socket, const char* name, const vhca::PortIp& ip) {
  ifreq request{};
  name_request(request, name);
  sockaddr_in in{};
  in.sin_family = AF_INET;
  std::memcpy(&in.sin_addr, ip.address.data() + 12, sizeof(in.sin_addr));
  std::memcpy(&request.ifr_addr, &in, sizeof(in));
  if (::ioctl(socket, SIOCSIFADDR, &request) != 0) return false;
  const unsigned bits = ip.prefix - 96u;
  in.sin_addr.s_addr = bits == 0 ? 0 : htobe32(~uint32_t{0} << (32 - bits));
  std::memcpy(&request.ifr_netmask, &in, sizeof(in));
  return ::ioctl(socket, SIOCSIFNETMASK, &request) == 0;
}

bool set_ip6(const char* name, const vhca::PortIp& ip) {
  const Fd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Ioctl6 request{};
  std::memcpy(&request.address, ip.address.data(), sizeof(request.address));
  request.prefix = ip.prefix;
  request.index = static_cast<int>(::if_nametoindex(name));
  return socket && ::ioctl(socket.get(), SIOCSIFADDR, &request) == 0;
}

// The interface has one address of IPv4 this way; the others are the port's alone.
bool set_ips(int socket, const char* name, std::span<const std::string> ips) {
  bool has_four = false;
  for (const std::string& text : ips) {
    const std::optional<vhca::PortIp> ip = vhca::parse_port_ip(text);
    if (!ip) continue;
    const bool four = vhca::is_ipv4(ip->address);
    if (four && std::exchange(has_four, true)) continue;
    if (!(four ? set_ip4(socket, name, *ip) : set_ip6(name, *ip))) return false;
  }
  return true;
}

// Rights of a namespace end at execve() for who is not root, but for ambient ones.
bool keep_rights() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  if (::syscall(SYS_capget, &header, sets) != 0) return false;
  constexpr unsigned rights[] = {CAP_NET_ADMIN, CAP_NET_RAW};
  for (const unsigned right : rights) sets[right / 32].inheritable |= 1u << right % 32;
  if (::syscall(SYS_capset, &header, sets) != 0) return false;
  for (const unsigned right : rights) {
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, right, 0, 0) != 0) return false;
  }
  return true;
}

}  // namespace

bool enter_network_namespace() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!map_ids(uid, gid) || !keep_rights() || !socket) return false;
  set_flags(socket.get(), "lo", IFF_UP);
  return true;
}

Result<Netdev> make_netdev(const vhca::Mac& mac, std::span<const std::string> ips) {
  Netdev made{Fd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC)), {}};
  if (!made.tap) return Error{errno, "/dev/net/tun cannot be opened"};
  ifreq request{};
  name_request(request, "kilim%d");
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (::ioctl(made.tap.get(), TUNSETIFF, &request) != 0)
    return Error{errno, "no network interface can be made"};
  made.name = request.ifr_name;
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return Error{errno, "no socket can be made"};
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.data(), mac.size());
  if (::ioctl(socket.get(), SIOCSIFHWADDR, &request) != 0)
    return Error{errno, "a network interface does not take the port's address"};
  set_speed(socket.get(), request.ifr_name);
  if (!set_flags(socket.get(), request.ifr_name, IFF_UP))
    return Error{errno, "a network interface cannot be set up"};
  if (!set_ips(socket.get(), request.ifr_name, ips))
    return Error{errno, "a network interface does not take an IP address of the port"};
  return made;
}

Status keep_netdev(Netdev& netdev) {
  if (::ioctl(netdev.tap.get(), TUNSETPERSIST, 1) != 0)
    return Error{errno, "a network interface does not stay without its maker"};
  netdev.tap.reset();
  return Done{};
}

void remove_netdev(const std::string& name) noexcept {
  const Fd tap(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  ifreq request{};
  name_request(request, name.c_str());
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (tap && ::ioctl(tap.get(), TUNSETIFF, &request) == 0)
    (void)::ioctl(tap.get(), TUNSETPERSIST, 0);
}

}  // namespace kilim::app
