// SPDX-License-Identifier: BSD-3-Clause
// A connected UDP socket.
#include "vhca/wire/udp.hh"

#include <cerrno>
#include <string>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace kilim::vhca {

namespace {

constexpr int receive_buffer = 4 << 20;  // bytes; above the system's limit with CAP_NET_ADMIN

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
  if (bind(socket.get(), ours.get(), ours.bytes) != 0) {
    return Error{errno, "udp: our address cannot be bound"};
  }
  if (connect(socket.get(), theirs.get(), theirs.bytes) != 0) {
    return Error{errno, "udp: there is no way to the neighbour's address"};
  }
  return std::unique_ptr<Wire>(new UdpWire(std::move(socket)));
}

FdWire::Put UdpWire::put(std::span<const std::byte> frame) noexcept {
  // ECONNREFUSED is reported by the next call on a connected socket (udp(7)).
  // The first try may only fetch the news that an earlier one found nobody.
  for (int i = 0; i < 2; i++) {
    if (::send(fd_.get(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
      return Put::done;
    if (says_busy(errno)) return Put::busy;
    if (errno != ECONNREFUSED) break;
  }
  return Put::lost;
}

ssize_t UdpWire::take(std::span<std::byte> into) noexcept {
  ssize_t n = recv(fd_.get(), into.data(), into.size(), MSG_DONTWAIT);
  if (n < 0 && errno == ECONNREFUSED) n = recv(fd_.get(), into.data(), into.size(), MSG_DONTWAIT);
  return n;
}

}  // namespace kilim::vhca
