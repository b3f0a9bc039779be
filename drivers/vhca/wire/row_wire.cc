// SPDX-License-Identifier: BSD-3-Clause
// Rows out and in: sendmmsg(2), recvmmsg(2), and for one frame send(2), recvmsg(2). And waiting for
// room: poll(2), epoll(7).
#include "vhca/wire/row_wire.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace kilim::vhca::wire {

namespace {

constexpr int bad_rows_at_once = 4;  // a sender of nonsense does not keep the engine

bool may_write(int socket) noexcept {
  pollfd p{socket, POLLOUT, 0};
  return ::poll(&p, 1, 0) != 0;  // an error is news too: send() fetches it
}

}  // namespace

int always_readable() noexcept {
  static const int fd = ::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
  return fd;
}

// Not cleared: pages that no frame touches cost nothing.
RowWire::RowWire(Fd socket, uint32_t mtu, Inlet inlet)
    : socket_(std::move(socket)),
      mtu_(mtu),
      out_memory_(new std::byte[row * max_frame(mtu)]),
      in_memory_(new std::byte[inlet.count * inlet.bytes]),
      inlet_(inlet),
      in_(inlet.count),
      messages_(inlet.count),
      written_(inlet.count),
      arrivals_(inlet.count) {
  for (std::size_t i = 0; i < inlet.count; i++) {
    In& in = in_[i];
    in.piece = {in_memory_.get() + i * inlet.bytes, inlet.bytes};
    messages_[i].msg_hdr = {&in.name, 0, &in.piece, 1, in.control, 0, 0};
  }
}

bool RowWire::is_full() noexcept {
  if (full_ >= 0 && may_write(full_)) full_ = -1;
  return full_ >= 0;
}

// Apart from cork(), each call of which would make room for the answer.
[[gnu::cold, gnu::noinline]] void RowWire::look_at_number() noexcept {
  turns_to_look_ = look_every;
  pulled_ = !socket_.ours();
}

bool RowWire::push_out() noexcept {
  if (first_ == end_) return true;
  if (pulled_) [[unlikely]] {
    counters_.tx_lost += end_ - first_;
    first_ = end_ = 0;
    return true;
  }
  if (is_full()) return false;
  while (first_ < end_) {
    const std::size_t gone = put(std::span(out_).subspan(first_, end_ - first_));
    if (gone == 0) return false;
    first_ += gone;
  }
  first_ = end_ = 0;
  return true;
}

bool RowWire::has_room() noexcept {
  return !is_full() && push_out();
}

Wire::Sent RowWire::send(Frame frame) noexcept {
  const std::size_t longest = max_frame(mtu_);
  if (frame.size() < ether_header_bytes || frame.size() > longest) {
    counters_.tx_bad_length++;
    return Sent::refused;
  }
  if (!corked_ && pulled_) [[unlikely]] {  // what is corked push_out() counts as lost
    counters_.tx_lost++;
    return Sent::taken;
  }
  bool room = corked_ ? end_ < row || push_out() : push_out() && !is_full();
  if (room && corked_) {
    std::byte* place = out_memory_.get() + end_ * longest;
    std::memcpy(place, frame.data(), frame.size());
    out_[end_++] = {place, frame.size()};
  } else if (room) {
    room = put({&frame, 1}) != 0;
  }
  if (!room) {
    counters_.tx_busy++;
    return Sent::busy;
  }
  counters_.tx_frames++;
  counters_.tx_bytes += frame.size();
  return Sent::taken;
}

int RowWire::send_row(int socket, std::span<const Frame> frames, const sockaddr_un* to,
                      socklen_t to_bytes) noexcept {
  constexpr int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (frames.size() == 1) {
    const Frame& f = frames[0];
    const auto* address = reinterpret_cast<const sockaddr*>(to);
    return ::sendto(socket, f.data(), f.size(), flags, address, to_bytes) < 0 ? -1 : 1;
  }
  std::array<mmsghdr, row> messages;
  std::array<iovec, row> pieces;
  const std::size_t count = std::min(frames.size(), row);
  for (std::size_t i = 0; i < count; i++) {
    pieces[i] = {const_cast<std::byte*>(frames[i].data()), frames[i].size()};
    messages[i] = {};
    messages[i].msg_hdr.msg_name = const_cast<sockaddr_un*>(to);
    messages[i].msg_hdr.msg_namelen = to_bytes;
    messages[i].msg_hdr.msg_iov = &pieces[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  return ::sendmmsg(socket, messages.data(), static_cast<unsigned>(count), flags);
}

// Whether a read failed for what became of a frame that was sent: errors of a connected socket are
// told by its next call (udp(7)). Not asked where there was nothing to read.
[[gnu::noinline]] bool RowWire::told_news() noexcept {
  if (errno == EINTR) return false;
  forget_news();
  return true;
}

// Answers as recvmmsg(2) does. The first try may only fetch news.
[[gnu::always_inline]] inline int RowWire::fetch() noexcept {
  constexpr int flags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
  ssize_t n = -1;
  for (int i = 0; i < 2 && n < 0 && (i == 0 || (errno != EAGAIN && told_news())); i++) {
    n = looks_.by_row() ? ::recvmmsg(socket_.get(), messages_.data(),
                                     static_cast<unsigned>(inlet_.count), flags, nullptr)
                        : ::recvmsg(socket_.get(), &messages_[0].msg_hdr, flags);
  }
  if (n < 0 || looks_.by_row()) return static_cast<int>(n);
  messages_[0].msg_len = static_cast<unsigned>(n);
  return 1;
}

// Fetches what the kernel has, up to a row. False: nothing. Who asked for one frame, or got fewer
// than he asked for, asks no second time in this turn: an answer need not wait for that call.
[[gnu::always_inline]] inline bool RowWire::receive() noexcept {
  if (empty_) return false;
  for (std::size_t i = 0; i < written_; i++) {
    messages_[i].msg_hdr.msg_namelen = sizeof(In::name);
    messages_[i].msg_hdr.msg_controllen = sizeof(In::control);
  }
  next_ = arrived_ = 0;
  const int n = fetch();
  const std::size_t came = n > 0 ? static_cast<std::size_t>(n) : 0;
  written_ = std::max<std::size_t>(came, 1);
  empty_ = corked_ && came < (looks_.by_row() ? inlet_.count : 2);
  looks_.found(came);
  for (std::size_t at = 0; at < came; at++) {
    Arrival a{in_memory_.get() + at * inlet_.bytes, messages_[at].msg_len};
    if (admit(messages_[at].msg_hdr, a))
      arrivals_[arrived_++] = a;
    else
      counters_.rx_malformed++;
  }
  return came != 0;
}

[[gnu::always_inline]] inline bool RowWire::show_next() noexcept {
  while (next_ < arrived_) {
    const Arrival& a = arrivals_[next_++];
    if (a.bytes < ether_header_bytes) {
      counters_.rx_too_short++;
    } else if (a.bytes > max_frame(mtu_)) {
      counters_.rx_too_long++;
    } else {
      shown_ = {a.at, a.bytes};
      return true;
    }
  }
  return false;
}

std::span<const std::byte> RowWire::peek() noexcept {
  if (!shown_.empty()) return shown_;
  for (int i = 0; !show_next() && i < bad_rows_at_once && receive(); i++) {
  }
  return shown_;
}

void RowWire::drop() noexcept {
  if (shown_.empty() && peek().empty()) return;
  counters_.rx_frames++;
  counters_.rx_bytes += shown_.size();
  shown_ = {};
}

int RowWire::fd() const noexcept {
  if (next_ < arrived_) return always_readable();
  if (pulled_) return -1;
  return full_ < 0 ? socket_.get() : both();
}

// Readable when there is something to read, or room.
int RowWire::both() const noexcept {
  auto change = [this](int what, int fd, uint32_t events) {
    epoll_event e{};
    e.events = events;
    return ::epoll_ctl(both_.get(), what, fd, &e) == 0;
  };
  if (!both_) {
    both_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
    if (!both_ || !change(EPOLL_CTL_ADD, socket_.get(), EPOLLIN)) {
      both_.reset();
      return socket_.get();
    }
  }
  if (watched_ == full_) return both_.get();
  if (watched_ >= 0) change(EPOLL_CTL_DEL, watched_, 0);
  if (full_ == socket_.get())
    change(EPOLL_CTL_MOD, full_, EPOLLIN | EPOLLOUT);
  else
    change(EPOLL_CTL_ADD, full_, EPOLLOUT);
  watched_ = full_;
  return both_.get();
}

void RowWire::closing(int socket) noexcept {
  if (watched_ == socket && socket >= 0) {
    ::epoll_ctl(both_.get(), EPOLL_CTL_DEL, socket, nullptr);
    watched_ = -1;
  }
  if (full_ == socket) full_ = -1;
}

}  // namespace kilim::vhca::wire
