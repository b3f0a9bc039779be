// SPDX-License-Identifier: BSD-3-Clause
// Sockets never block: what cannot go on now waits in wait_for().
#include "perf/two_sided/tcp.hh"

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace kilim::perf {
namespace {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  explicit Deadline(const Patience& p)
      : limited_(p.limit.count() != 0), end_(Clock::now() + p.limit) {}
  [[nodiscard]] bool over() const { return limited_ && Clock::now() >= end_; }

 private:
  bool limited_;
  Clock::time_point end_;
};

// Until the socket is ready for `events` or has failed, which the next call on it tells.
Status wait_for(int fd, short events, const Patience& patience, const Deadline& deadline) {
  constexpr int nap_ms = 50;
  while (!deadline.over()) {
    pollfd p{fd, events, 0};
    if (::poll(&p, 1, patience.idle.run != nullptr ? 0 : nap_ms) > 0) return Done{};
    if (patience.idle.run != nullptr) patience.idle.run(patience.idle.arg);
  }
  return Error{ETIMEDOUT, "the other side does not answer in time"};
}

Error gone(int code) {
  return {code, "the other side has closed the TCP connection"};
}

Fd make_socket(int family) {
  Fd fd{::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  const int one = 1;
  if (fd) (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  return fd;
}

void dont_gather(int fd) {
  const int one = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

// All addresses of this machine, by IP version 6 where it has that.
Fd listen_on(uint16_t port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  six.sin6_addr = in6addr_any;
  Fd fd = make_socket(AF_INET6);
  const int off = 0;
  if (fd) (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&six), sizeof six) == 0 &&
      ::listen(fd.get(), 1) == 0)
    return fd;
  if (fd && errno == EADDRINUSE) return Fd{};
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  fd = make_socket(AF_INET);
  if (fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&four), sizeof four) == 0 &&
      ::listen(fd.get(), 1) == 0)
    return fd;
  return Fd{};
}

struct AddressesDelete {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};

// Connected, or an errno.
Result<Fd> try_connect(const addrinfo& a, const Patience& patience, const Deadline& deadline) {
  Fd fd = make_socket(a.ai_family);
  if (!fd) return Error{errno, "there is no further socket"};
  if (::connect(fd.get(), a.ai_addr, a.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return Error{errno, ""};
  if (Status s = wait_for(fd.get(), POLLOUT, patience, deadline); !s) return s.error();
  int code = 0;
  socklen_t size = sizeof code;
  (void)::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
  if (code != 0) return Error{code, ""};
  return fd;
}

}  // namespace

Result<Tcp> Tcp::accept_one(uint16_t port, const Idle& idle) {
  const Fd listener = listen_on(port);
  if (!listener) return Error{errno, "nobody can listen on this TCP port; -p names another"};
  const Patience patience{.limit = std::chrono::milliseconds{0}, .idle = idle};
  while (true) {
    (void)wait_for(listener.get(), POLLIN, patience, Deadline{patience});
    Fd fd{::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (!fd && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)) continue;
    if (!fd) return Error{errno, "no client can be accepted"};
    dont_gather(fd.get());
    return Tcp{std::move(fd)};
  }
}

Result<Tcp> Tcp::connect(const std::string& host, uint16_t port, const Patience& patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return Error{ENOENT, "the host's name leads nowhere"};
  const std::unique_ptr<addrinfo, AddressesDelete> list{found};
  const Deadline deadline{patience};
  while (!deadline.over()) {
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
      Result<Fd> fd = try_connect(*a, patience, deadline);
      if (!fd) continue;
      dont_gather((*fd).get());
      return Tcp{*std::move(fd)};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  return Error{ECONNREFUSED, "no server answers on this host and TCP port; is it started?"};
}

Status Tcp::write_all(std::span<const uint8_t> bytes, const Patience& patience) {
  const Deadline deadline{patience};
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (Status s = wait_for(fd_.get(), POLLOUT, patience, deadline); !s) return s;
    } else if (errno != EINTR) {
      return gone(errno);
    }
  }
  return Done{};
}

Status Tcp::read_all(std::span<uint8_t> bytes, const Patience& patience) {
  const Deadline deadline{patience};
  while (!bytes.empty()) {
    const ssize_t n = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (n == 0) {
      return gone(ECONNRESET);
    } else if (errno == EAGAIN) {
      if (Status s = wait_for(fd_.get(), POLLIN, patience, deadline); !s) return s;
    } else if (errno != EINTR) {
      return gone(errno);
    }
  }
  return Done{};
}

Status Tcp::send(Kind kind, std::span<const uint8_t> payload, const Patience& patience) {
  std::vector<uint8_t> bytes = encode_header({kind, static_cast<uint32_t>(payload.size())});
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return write_all(bytes, patience);
}

void Tcp::linger(const Patience& patience) {
  const Deadline deadline{patience};
  (void)::shutdown(fd_.get(), SHUT_WR);
  uint8_t ignored[512];
  while (wait_for(fd_.get(), POLLIN, patience, deadline))
    if (::recv(fd_.get(), ignored, sizeof ignored, 0) <= 0) return;
}

Result<Message> Tcp::receive(const Patience& patience) {
  std::vector<uint8_t> head(header_bytes);
  if (Status s = read_all(head, patience); !s) return s.error();
  const Result<Header> header = decode_header(head);
  if (!header) return header.error();
  Message m{header->kind, std::vector<uint8_t>(header->bytes)};
  if (Status s = read_all(m.payload, patience); !s) return s.error();
  return m;
}

}  // namespace kilim::perf
