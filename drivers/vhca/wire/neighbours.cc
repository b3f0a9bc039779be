// SPDX-License-Identifier: BSD-3-Clause
// rtnetlink(7), RTM_GETNEIGH of one address.
#include "vhca/wire/neighbours.hh"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"
#include "vhca/core/address.hh"

namespace kilim::vhca::wire {

namespace {

// Not by name: a library of others may stand before these calls, ours among them.
Fd open_socket(int domain, int type, int protocol) noexcept {
  return Fd(static_cast<int>(::syscall(SYS_socket, domain, type | SOCK_CLOEXEC, protocol)));
}

struct Question {
  nlmsghdr header;
  ndmsg about;
  rtattr attribute;
  uint8_t address[16];
};

// A datagram to the discard port: the kernel asks for who is to get it.
void make_kernel_ask(int interface, const Gid& address) noexcept {
  constexpr uint16_t discard = 9;
  const bool four = is_ipv4(address);
  const Fd socket = open_socket(four ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
  sockaddr_in to4{};
  sockaddr_in6 to6{};
  to4.sin_family = AF_INET;
  to4.sin_port = htons(discard);
  std::memcpy(&to4.sin_addr, address.data() + 12, 4);
  to6.sin6_family = AF_INET6;
  to6.sin6_port = htons(discard);
  to6.sin6_scope_id = static_cast<uint32_t>(interface);
  std::memcpy(&to6.sin6_addr, address.data(), address.size());
  const auto* to =
      four ? reinterpret_cast<const sockaddr*>(&to4) : reinterpret_cast<const sockaddr*>(&to6);
  char name[IF_NAMESIZE];
  if (if_indextoname(static_cast<unsigned>(interface), name) != nullptr)
    (void)setsockopt(socket.get(), SOL_SOCKET, SO_BINDTODEVICE, name,
                     static_cast<socklen_t>(std::strlen(name)));
  (void)sendto(socket.get(), nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL, to,
               four ? sizeof(to4) : sizeof(to6));
}

// The link-layer address in an answer; the bytes are the kernel's.
std::optional<Mac> read_answer(const std::byte* answer, std::size_t bytes) noexcept {
  nlmsghdr header;
  ndmsg about;
  constexpr std::size_t head = sizeof(header) + sizeof(about);
  if (bytes < head) return std::nullopt;
  std::memcpy(&header, answer, sizeof(header));
  std::memcpy(&about, answer + sizeof(header), sizeof(about));
  constexpr unsigned known =
      NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;
  if (header.nlmsg_type != RTM_NEWNEIGH || (about.ndm_state & known) == 0) return std::nullopt;
  const std::size_t end = std::min<std::size_t>(bytes, header.nlmsg_len);
  for (std::size_t at = head; at + sizeof(rtattr) <= end;) {
    rtattr a;
    std::memcpy(&a, answer + at, sizeof(a));
    if (a.rta_len < sizeof(a)) break;
    Mac mac;
    if (a.rta_type == NDA_LLADDR && a.rta_len == sizeof(a) + mac.size() && at + a.rta_len <= end) {
      std::memcpy(mac.data(), answer + at + sizeof(a), mac.size());
      return mac;
    }
    at += NLMSG_ALIGN(a.rta_len);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Mac> find_in_kernel(int interface, const Gid& address) noexcept {
  const bool four = is_ipv4(address);
  const std::size_t bytes = four ? 4 : 16;
  Question q{};
  q.header.nlmsg_len = static_cast<uint32_t>(offsetof(Question, address) + bytes);
  q.header.nlmsg_type = RTM_GETNEIGH;
  q.header.nlmsg_flags = NLM_F_REQUEST;
  q.about.ndm_family = four ? AF_INET : AF_INET6;
  q.about.ndm_ifindex = interface;
  q.attribute.rta_type = NDA_DST;
  q.attribute.rta_len = static_cast<uint16_t>(sizeof(rtattr) + bytes);
  std::memcpy(q.address, address.data() + (four ? 12 : 0), bytes);
  const Fd netlink = open_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  alignas(nlmsghdr) std::byte answer[1024];
  ssize_t n = -1;
  if (netlink && send(netlink.get(), &q, q.header.nlmsg_len, 0) > 0)
    n = recv(netlink.get(), answer, sizeof(answer), MSG_DONTWAIT);  // send(2) has made the answer
  std::optional<Mac> mac;
  if (n > 0) mac = read_answer(answer, static_cast<std::size_t>(n));
  if (!mac) make_kernel_ask(interface, address);
  return mac;
}

std::optional<Mac> mac_of_interface(int interface) noexcept {
  ifreq r{};
  const Fd socket = open_socket(AF_INET, SOCK_DGRAM, 0);
  if (if_indextoname(static_cast<unsigned>(interface), r.ifr_name) == nullptr) return std::nullopt;
  if (!socket || ioctl(socket.get(), SIOCGIFHWADDR, &r) != 0) return std::nullopt;
  Mac mac;
  std::memcpy(mac.data(), r.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

}  // namespace kilim::vhca::wire
