// SPDX-License-Identifier: BSD-3-Clause
// A pair of unix datagram sockets. The neighbour is named with every frame: he may come later, go
// and come again.
#include "vhca/wire/dgram.hh"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "vhca/wire/own_files.hh"

namespace kilim::vhca::wire {

namespace {

constexpr int send_buffer = 4 << 20;   // bytes; a unix datagram waits in its sender's (unix(7))
constexpr int strangers_at_once = 64;  // a sender of nonsense does not keep the engine

const sockaddr* plain(const sockaddr_un& a) {
  return reinterpret_cast<const sockaddr*>(&a);
}

bool set_path(sockaddr_un& a, std::string_view path) {
  a = {};
  a.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(a.sun_path)) return false;
  std::memcpy(a.sun_path, path.data(), path.size());
  return true;
}

// A socket's file that nobody holds open is left over; any other file of that name stays.
void remove_left(const sockaddr_un& a) {
  struct stat st;
  if (lstat(a.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode)) return;
  Fd probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (probe && connect(probe.get(), plain(a), sizeof(a)) != 0 && errno == ECONNREFUSED)
    (void)!unlink(a.sun_path);
}

}  // namespace

Result<std::unique_ptr<Wire>> DgramWire::create(std::string_view names) {
  std::size_t colon = names.find(':');
  sockaddr_un ours, theirs;
  if (colon == std::string_view::npos || names.find(':', colon + 1) != std::string_view::npos ||
      !set_path(ours, names.substr(0, colon)) || !set_path(theirs, names.substr(colon + 1))) {
    return Error{EINVAL, "dgram: two sockets are needed, OURS:THEIRS, of at most 107 bytes each"};
  }
  if (std::strcmp(ours.sun_path, theirs.sun_path) == 0) {
    return Error{EINVAL, "dgram: our socket and the neighbour's are two"};
  }
  for (const sockaddr_un* a : {&ours, &theirs})
    if (Status own = check_folder_of(a->sun_path); !own) return own.error();
  Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket || !ask_for_senders(socket.get()))
    return Error{errno, "dgram: no socket can be made"};
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
  remove_left(ours);
  if (bind(socket.get(), plain(ours), sizeof(ours)) != 0) {
    return Error{errno, "dgram: our socket cannot be bound"};
  }
  return std::unique_ptr<Wire>(new DgramWire(std::move(socket), ours, theirs));
}

DgramWire::DgramWire(Fd socket, const sockaddr_un& ours, const sockaddr_un& theirs)
    : FdWire(std::move(socket), dgram_mtu), ours_(ours), theirs_(theirs) {}

DgramWire::~DgramWire() {
  (void)!unlink(ours_.sun_path);
}

FdWire::Put DgramWire::put(std::span<const std::byte> frame) noexcept {
  if (sendto(fd_.get(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL, plain(theirs_),
             sizeof(theirs_)) >= 0)
    return Put::done;
  return says_busy(errno) ? Put::busy : Put::lost;
}

// A stranger's datagram counts as malformed and is passed over.
ssize_t DgramWire::take(std::span<std::byte> into) noexcept {
  for (int i = 0; i < strangers_at_once; i++) {
    sockaddr_un from{};
    socklen_t bytes = 0;
    const ssize_t n = receive_own(fd_.get(), into, from, bytes);
    const bool neighbour =
        bytes > offsetof(sockaddr_un, sun_path) && bytes <= sizeof(from) &&
        std::strncmp(from.sun_path, theirs_.sun_path, sizeof(from.sun_path)) == 0;
    if (n < 0 || neighbour) return n;
    counters_.rx_malformed++;
  }
  return -1;
}

}  // namespace kilim::vhca::wire
