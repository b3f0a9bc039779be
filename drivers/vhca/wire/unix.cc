// SPDX-License-Identifier: BSD-3-Clause
// Sockets to neighbours: unix(7).
#include "vhca/wire/unix.hh"

#include <cerrno>
#include <utility>

#include "vhca/wire/fd_wire.hh"
#include "vhca/wire/own_files.hh"

namespace kilim::vhca::wire {

namespace {

constexpr int send_buffer = 4 << 20;  // bytes; a datagram waits in its sender's (unix(7))

void widen(int socket) noexcept {
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
}

}  // namespace

std::string UnixWire::folder_of(std::string_view spec) {
  for (std::string_view kind : {"unix:", "shm:"}) {
    if (spec.starts_with(kind))
      return std::string(spec.substr(0, spec.find('+')).substr(kind.size()));
  }
  return {};
}

Result<std::unique_ptr<Wire>> UnixWire::create(std::string_view folder) {
  Result<Slots> slots = Slots::claim(folder, SOCK_DGRAM);
  if (!slots) return slots.error();
  Result<Fd> socket = slots->bound_socket();
  if (!socket) return socket.error();
  if (!ask_for_senders(socket->get())) return Error{errno, "the kernel does not tell who sends"};
  return std::unique_ptr<Wire>(new UnixWire(*std::move(slots), *std::move(socket)));
}

// One byte more than a frame has: what fills it is too long.
UnixWire::UnixWire(Slots slots, Fd socket)
    : RowWire(std::move(socket), unix_mtu, {fetched, max_frame(unix_mtu) + 1}),
      slots_(std::move(slots)) {
  widen(socket_.get());
}

void UnixWire::leave(Neighbour& n) noexcept {
  closing(n.socket.get());
  n.socket.reset();
  n.slot = Slots::none;
}

// With a socket where there is one for him: a place that another has, or a name that cannot be had,
// leaves it to the socket on which we receive.
UnixWire::Neighbour& UnixWire::neighbour(uint32_t slot) noexcept {
  Neighbour& n = neighbours_[slot % neighbours_.size()];
  if (n.socket) return n;
  n.socket = OwnFd(slots_.connected(slot));
  if (!n.socket) return n;
  if (slots_.name(n.socket.get())) {
    n.slot = slot;
    widen(n.socket.get());
  } else {
    n.socket.reset();
  }
  return n;
}

UnixWire::Put UnixWire::put_to(uint32_t slot, std::span<const Frame> frames,
                               std::size_t& gone) noexcept {
  // The second time, who was there has gone, and another may have come.
  for (int i = 0; i < 2; i++) {
    Neighbour& n = neighbour(slot);
    const bool his = n.slot == slot;
    sockaddr_un a;
    const socklen_t bytes = his ? 0 : slots_.address(slot, a);
    const int socket = his ? n.socket.get() : socket_.get();
    const int sent = send_row(socket, frames, his ? nullptr : &a, bytes);
    if (sent > 0) {
      gone = static_cast<std::size_t>(sent);
      return Put::done;
    }
    if (says_busy(errno)) {
      refused(socket);
      return Put::busy;
    }
    if (!his) break;
    leave(n);
  }
  return Put::lost;
}

UnixWire::Put UnixWire::put_to_all(Frame frame) noexcept {
  bool busy = false, done = false;
  for (uint32_t slot = 0; slots_.floods_to(slot); slot++) {
    if (slot == slots_.own()) continue;
    std::size_t gone = 0;
    const Put p = put_to(slot, {&frame, 1}, gone);
    busy = busy || p == Put::busy;
    done = done || p == Put::done;
  }
  if (!done) return busy ? Put::busy : Put::done;  // an empty switch takes everything
  return busy ? Put::lost : Put::done;
}

std::size_t UnixWire::put(std::span<const Frame> frames) noexcept {
  const uint32_t to = slots_.way_of(frames[0]);
  std::size_t gone = 1;
  if (to == slots_.own()) return gone;
  if (frames.size() == 1 && to != Slots::all) {
    const Neighbour& n = neighbours_[to % neighbours_.size()];
    if (n.slot == to) {
      if (send_one(n.socket.get(), frames[0])) return gone;
      if (says_busy(errno)) {
        refused(n.socket.get());
        return 0;
      }
    }
  }
  Put p = Put::done;
  if (to == Slots::all) {
    p = put_to_all(frames[0]);
  } else {
    std::size_t same = 1;
    while (same < frames.size() && slots_.way_of(frames[same]) == to) same++;
    p = put_to(to, frames.first(same), gone);
    if (p == Put::lost) slots_.forget(frames[0]);
  }
  counters_.tx_lost += p == Put::lost;
  return p == Put::busy ? 0 : gone;
}

// A stranger's datagram counts as malformed.
bool UnixWire::admit(msghdr& message, Arrival& a) noexcept {
  if (!sent_by_us(message)) return false;
  if (a.bytes >= ether_header_bytes)
    slots_.learn({a.at, a.bytes}, Slots::of(*static_cast<const sockaddr_un*>(message.msg_name),
                                            message.msg_namelen));
  return true;
}

}  // namespace kilim::vhca::wire
