// SPDX-License-Identifier: BSD-3-Clause
// A connected UDP socket.
#include "vhca/wire/udp.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include "vhca/wire/fd_wire.hh"

namespace kilim::vhca::wire {

namespace {

// Bytes of one message that the kernel cuts, with room for the headers of IPv6 (RFC 768: 65,535).
constexpr std::size_t longest_message = 65'000;
constexpr std::size_t most_segments = 64;  // UDP_MAX_SEGMENTS of linux/udp.h, before Linux 6.8
constexpr int receive_buffer = 4 << 20;    // bytes; above the system's limit with CAP_NET_ADMIN

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

// Takes "HOST:PORT" off the front; a ':' behind it goes too.
bool parse_address(std::string_view& rest, Address& a) {
  bool six = rest.starts_with('[');
  std::size_t end = rest.find(six ? ']' : ':');
  if (end == std::string_view::npos) return false;
  std::string host(rest.substr(six ? 1 : 0, end - (six ? 1 : 0)));
  rest.remove_prefix(end + (six ? 1 : 0));
  if (!rest.starts_with(':')) return false;
  rest.remove_prefix(1);
  std::size_t colon = rest.find(':');
  std::string port(rest.substr(0, colon));
  rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (port.empty() || host.empty() || getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0)
    return false;
  a.bytes = found->ai_addrlen;
  __builtin_memcpy(&a.storage, found->ai_addr, a.bytes);
  freeaddrinfo(found);
  return true;
}

// Lets the kernel tell the sender what it drops on the way out (Linux net/ipv4/udp.c,
// udp_send_skb(): ENOBUFS is silent without); errors that come back on the way queue up then.
void ask_for_errors(int socket, int family) noexcept {
  const int on = 1;
  if (family == AF_INET6)
    setsockopt(socket, SOL_IPV6, IPV6_RECVERR, &on, sizeof on);
  else
    setsockopt(socket, SOL_IP, IP_RECVERR, &on, sizeof on);
}

}  // namespace

Result<std::unique_ptr<Wire>> UdpWire::create(std::string_view addresses) {
  Address ours, theirs;
  if (!parse_address(addresses, ours) || !parse_address(addresses, theirs) || !addresses.empty()) {
    return Error{EINVAL, "udp: two numeric addresses are needed, HOST:PORT:HOST:PORT"};
  }
  if (ours.storage.ss_family != theirs.storage.ss_family) {
    return Error{EINVAL, "udp: both addresses are IPv4 or both IPv6"};
  }
  Fd socket(::socket(ours.storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return Error{errno, "udp: no socket can be made"};
  if (setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer,
                 sizeof(receive_buffer)) != 0) {
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  ask_for_errors(socket.get(), ours.storage.ss_family);
  if (bind(socket.get(), ours.get(), ours.bytes) != 0) {
    return Error{errno, "udp: our address cannot be bound"};
  }
  if (connect(socket.get(), theirs.get(), theirs.bytes) != 0) {
    return Error{errno, "udp: there is no way to the neighbour's address"};
  }
  return std::unique_ptr<Wire>(new UdpWire(std::move(socket)));
}

// Frames of one length, up to 64 KiB of them, are one message; a shorter one may be its last.
std::size_t UdpWire::send_segments(std::span<const Frame> frames) noexcept {
  std::array<iovec, most_segments> pieces;
  std::size_t count = 0, bytes = 0;
  const std::size_t each = frames[0].size();
  for (; count < std::min(frames.size(), most_segments); count++) {
    const Frame& f = frames[count];
    if (f.size() > each || bytes + f.size() > longest_message) break;
    pieces[count] = {const_cast<std::byte*>(f.data()), f.size()};
    bytes += f.size();
    if (f.size() < each) {
      count++;
      break;
    }
  }
  if (count < 2) return 0;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {};
  msghdr m{};
  m.msg_iov = pieces.data();
  m.msg_iovlen = count;
  m.msg_control = control;
  m.msg_controllen = sizeof(control);
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_UDP;
  c->cmsg_type = UDP_SEGMENT;
  c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
  const auto segment = static_cast<uint16_t>(each);
  std::memcpy(CMSG_DATA(c), &segment, sizeof(segment));
  if (::sendmsg(socket_.get(), &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return count;
  if (errno == ENOBUFS) {  // the whole message, before it was cut
    counters_.tx_lost += count;
    return count;
  }
  // Longer than the way's MTU, an old kernel, an interface that computes no checksums: one by one.
  const bool refuses = errno == EMSGSIZE || errno == EINVAL || errno == EIO || errno == ENOPROTOOPT;
  if (refuses) cuts_ = false;
  return 0;
}

// What our kernel queued about earlier frames is read, so that it takes no room of what comes and
// poll(2) does not go on telling it. It says nothing of how many frames were lost.
void UdpWire::forget_news() noexcept {
  constexpr int most_at_once = 1024;
  msghdr nothing{};
  for (int i = 0; i < most_at_once; i++)
    if (::recvmsg(socket_.get(), &nothing, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) break;
}

std::size_t UdpWire::put(std::span<const Frame> frames) noexcept {
  if (cuts_ && frames.size() > 1) {
    if (const std::size_t gone = send_segments(frames); gone != 0) return gone;
  }
  // The first try may only fetch the news of an earlier frame (udp(7)).
  for (int i = 0; i < 2; i++) {
    const int sent = send_row(socket_.get(), frames);
    if (sent > 0) return static_cast<std::size_t>(sent);
    if (errno == ENOBUFS) break;
    if (says_busy(errno)) {
      refused(socket_.get());
      return 0;
    }
    forget_news();
  }
  counters_.tx_lost++;
  return 1;
}

bool UdpWire::admit(msghdr&, Arrival&) noexcept {
  return true;
}

const WireCounters& UdpWire::counters() noexcept {
  std::array<uint32_t, SK_MEMINFO_VARS> info{};
  socklen_t bytes = sizeof(info);
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_MEMINFO, info.data(), &bytes) == 0 &&
      bytes > SK_MEMINFO_DROPS * sizeof(info[0])) {
    counters_.rx_kernel_drops += info[SK_MEMINFO_DROPS] - drops_seen_;  // it wraps
    drops_seen_ = info[SK_MEMINFO_DROPS];
  }
  return counters_;
}

}  // namespace kilim::vhca::wire
