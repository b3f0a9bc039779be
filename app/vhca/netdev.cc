// SPDX-License-Identifier: BSD-3-Clause
// Linux, Documentation/networking/tuntap.rst, netdevice(7), capabilities(7).
#include "netdev.hh"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sysfs_mount.hh"

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

Result<Netdev> make_netdev(const vhca::Mac& mac) {
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
  return made;
}

}  // namespace kilim::app
