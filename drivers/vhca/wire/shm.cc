// SPDX-License-Identifier: BSD-3-Clause
// Connections and their rings. Sources: unix(7), SOCK_SEQPACKET; epoll(7).
#include "vhca/wire/shm.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vhca/wire/row_wire.hh"

namespace kilim::vhca::wire {

namespace {

constexpr int backlog = 128;
constexpr std::size_t shown_at_once = 16 << 10;  // bytes of a corked sink that its taker gets early
constexpr unsigned row_of_one = 32;              // frames of a source before another has its turn
constexpr unsigned look_every = 32;              // peeks that found nothing
constexpr int bad_frames_in_a_row = 64;          // a sender of nonsense does not keep the engine

// The first message of a connection; the ring's memory comes with it.
struct Hello {
  uint64_t magic = 0x31306d68736c6b;  // "klshm01"
  uint64_t slot = 0;
};

// Whoever sleeps behind this connection wakes. A full socket is as good: there is news already.
void wake(const OwnFd& socket) noexcept {
  if (socket.ours()) (void)!::send(socket.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool send_hello(int socket, uint32_t slot, int memory) noexcept {
  Hello hello;
  hello.slot = slot;
  iovec piece{&hello, sizeof(hello)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr m{};
  m.msg_iov = &piece;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof(control);
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(c), &memory, sizeof(memory));
  return ::sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(hello);
}

// The memory that came with the hello; none: it is none. There is room for one descriptor, the
// kernel closes others.
Fd receive_hello(int socket, uint32_t& slot) noexcept {
  Hello hello{0, 0};
  iovec piece{&hello, sizeof(hello)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr m{};
  m.msg_iov = &piece;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t n = ::recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* c = n < 0 ? nullptr : CMSG_FIRSTHDR(&m);
  int memory = -1;
  if (c != nullptr && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
      c->cmsg_len == CMSG_LEN(sizeof(int)))
    std::memcpy(&memory, CMSG_DATA(c), sizeof(memory));
  Fd got(memory);
  if (n != sizeof(hello) || hello.magic != Hello{}.magic || hello.slot >= Slots::count) return {};
  slot = static_cast<uint32_t>(hello.slot);
  return got;
}

bool is_ours(int socket) noexcept {
  ucred who{};
  socklen_t bytes = sizeof(who);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == ::getuid();
}

// Takes the bytes that woke us, or leaves them; false: the other end has gone. A message a byte, so
// one call for all of them; a message without one is the end.
bool drain(int socket, bool leave) noexcept {
  char bytes[16];
  iovec pieces[16];
  mmsghdr messages[16]{};
  for (std::size_t i = 0; i < 16; i++) {
    pieces[i] = {&bytes[i], 1};
    messages[i].msg_hdr.msg_iov = &pieces[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  if (leave) {
    const ssize_t n = ::recv(socket, bytes, 1, MSG_DONTWAIT | MSG_PEEK);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }
  const int n = ::recvmmsg(socket, messages, 16, MSG_DONTWAIT, nullptr);
  if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
  return messages[n - 1].msg_len != 0;
}

}  // namespace

Result<std::unique_ptr<Wire>> ShmWire::create(std::string_view folder) {
  Result<Slots> slots = Slots::claim(folder, SOCK_SEQPACKET);
  if (!slots) return slots.error();
  Result<Fd> listener = slots->bound_socket();
  if (!listener) return listener.error();
  Fd events(::epoll_create1(EPOLL_CLOEXEC));
  if (!events || ::listen(listener->get(), backlog) != 0)
    return Error{errno, "shm: nobody can be listened to"};
  std::unique_ptr<ShmWire> wire(
      new ShmWire(*std::move(slots), *std::move(listener), std::move(events)));
  if (!wire->watch(wire->listener_.get(), most_sources + most_sinks))
    return Error{errno, "shm: nobody can be waited for"};
  return std::unique_ptr<Wire>(std::move(wire));
}

ShmWire::ShmWire(Slots slots, Fd listener, Fd events)
    : slots_(std::move(slots)),
      listener_(std::move(listener)),
      events_(std::move(events)),
      buffer_(new std::byte[max_frame(shm_mtu)]) {}

// Sources have the first numbers, sinks the next, the listener the last.
bool ShmWire::watch(int socket, std::size_t which) noexcept {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = which;
  return ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, socket, &e) == 0;
}

bool ShmWire::connect_to(End& sink, uint32_t slot) noexcept {
  leave(sink);
  Fd socket = slots_.connected(slot);
  if (!socket || !is_ours(socket.get())) return false;
  const Fd memory = sink.ring.create();
  if (!memory || !send_hello(socket.get(), slots_.own(), memory.get()) ||
      !watch(socket.get(), most_sources + static_cast<std::size_t>(&sink - sinks_.data()))) {
    sink.ring.close();
    return false;
  }
  sink.socket = OwnFd(std::move(socket));
  sink.slot = slot;
  return true;
}

ShmWire::End* ShmWire::sink_of(uint32_t slot) noexcept {
  End& sink = sinks_[slot % most_sinks];
  const bool there = sink.socket && sink.slot == slot;
  return there || connect_to(sink, slot) ? &sink : nullptr;
}

// What he was not shown yet he gets: he takes what is there before he forgets us.
void ShmWire::leave(End& sink) noexcept {
  if (unshown_ == &sink) show(sink);
  if (full_ == &sink) full_ = nullptr;
  sink.socket.reset();
  sink.ring.close();
  sink.slot = Slots::none;
}

void ShmWire::show(End& sink) noexcept {
  if (unshown_ == &sink) unshown_ = nullptr;
  if (sink.ring.show()) wake(sink.socket);
}

ShmWire::Put ShmWire::put_to(uint32_t slot, std::span<const std::byte> frame) noexcept {
  End* sink = sink_of(slot);
  if (sink == nullptr) return Put::lost;
  if (unshown_ != nullptr && unshown_ != sink) show(*unshown_);
  switch (sink->ring.put(frame)) {
    case ShmRing::Put::kept:
      unshown_ = sink;
      if (!corked_ || sink->ring.unshown() >= shown_at_once) show(*sink);
      return Put::done;
    case ShmRing::Put::full:
      show(*sink);
      full_ = sink;
      return Put::busy;
    case ShmRing::Put::broken:
      break;
  }
  leave(*sink);
  return Put::lost;
}

ShmWire::Put ShmWire::put_to_all(std::span<const std::byte> frame) noexcept {
  bool busy = false, done = false;
  for (uint32_t slot = 0; slots_.floods_to(slot); slot++) {
    if (slot == slots_.own()) continue;
    const Put p = put_to(slot, frame);
    busy = busy || p == Put::busy;
    done = done || p == Put::done;
  }
  if (!done) return busy ? Put::busy : Put::done;  // an empty switch takes everything
  return busy ? Put::lost : Put::done;
}

Wire::Sent ShmWire::send(std::span<const std::byte> frame) noexcept {
  if (frame.size() < ether_header_bytes || frame.size() > max_frame(shm_mtu)) {
    counters_.tx_bad_length++;
    return Sent::refused;
  }
  const uint32_t to = slots_.way_of(frame);
  Put p = Put::done;
  if (to == Slots::all)
    p = put_to_all(frame);
  else if (to != slots_.own())
    p = put_to(to, frame);
  if (p == Put::busy) {
    counters_.tx_busy++;
    return Sent::busy;
  }
  if (p == Put::lost) {
    counters_.tx_lost++;
    slots_.forget(frame);
  }
  counters_.tx_frames++;
  counters_.tx_bytes += frame.size();
  return Sent::taken;
}

bool ShmWire::flush() noexcept {
  if (unshown_ != nullptr) show(*unshown_);
  return true;
}

bool ShmWire::has_room() noexcept {
  if (full_ != nullptr) look();  // the dead make room
  if (full_ != nullptr && full_->ring.has_room()) full_ = nullptr;
  return full_ == nullptr;
}

void ShmWire::give_back(End& source) noexcept {
  if (source.ring.release() && source.socket) wake(source.socket);
}

void ShmWire::forget(End& source) noexcept {
  source = End{};
  while (sources_end_ > 0 && !sources_[sources_end_ - 1].socket && !sources_[sources_end_ - 1].ring)
    sources_end_--;
}

// True: a frame lies in the buffer.
bool ShmWire::take_from(End& source) noexcept {
  if (!source.ring) return false;
  for (int i = 0; i < bad_frames_in_a_row; i++) {
    std::size_t bytes = 0;
    const ShmRing::Take took = source.ring.take({buffer_.get(), max_frame(shm_mtu)}, bytes);
    if (took == ShmRing::Take::broken) {
      counters_.rx_malformed++;
      forget(source);
      return false;
    }
    if (took == ShmRing::Take::none || source.ring.unreleased() >= ShmRing::bytes / 8) {
      if (source.ring.unreleased() > 0) give_back(source);
    }
    if (took == ShmRing::Take::none) {
      if (source.ended) forget(source);
      return false;
    }
    if (bytes >= ether_header_bytes) {
      have_ = bytes;
      slots_.learn({buffer_.get(), bytes}, source.slot);
      return true;
    }
    (bytes == 0 ? counters_.rx_too_long : counters_.rx_too_short)++;
  }
  return false;
}

// In turn: who has much to send does not keep the others waiting.
bool ShmWire::take_any() noexcept {
  for (std::size_t n = 0; n <= sources_end_; n++) {
    if (turn_ >= sources_end_) turn_ = 0;
    if (in_row_ < row_of_one && turn_ < sources_end_ && take_from(sources_[turn_])) {
      in_row_++;
      return true;
    }
    turn_++;
    in_row_ = 0;
  }
  return false;
}

std::span<const std::byte> ShmWire::peek() noexcept {
  if (have_ == 0 && asked_ && pthread_equal(asker_, pthread_self()) != 0) {
    asked_ = false;
    for (std::size_t i = 0; i < sources_end_; i++)
      if (sources_[i].ring) sources_[i].ring.wake();
    empty_looks_ = look_every;  // news of connections come behind the frames
  }
  if (have_ == 0 && !take_any() && ++empty_looks_ >= look_every) {
    look();
    (void)take_any();
  }
  return {buffer_.get(), have_};
}

void ShmWire::drop() noexcept {
  if (peek().empty()) return;
  counters_.rx_frames++;
  counters_.rx_bytes += have_;
  have_ = 0;
}

int ShmWire::fd() const noexcept {
  bool news = full_ != nullptr && full_->ring.has_room();
  for (std::size_t i = 0; i < sources_end_; i++) {
    ShmRing& ring = sources_[i].ring;
    news = (ring && !ring.sleep()) || news;
  }
  asked_ = true;
  asker_ = pthread_self();
  return news ? always_readable() : events_.get();
}

// A byte that woke who asked for fd() is his: while he may sleep, others leave it there.
void ShmWire::look() noexcept {
  empty_looks_ = 0;
  std::array<epoll_event, 16> news;
  const int n = ::epoll_wait(events_.get(), news.data(), static_cast<int>(news.size()), 0);
  for (int i = 0; i < n; i++) {
    const std::size_t which = news[static_cast<std::size_t>(i)].data.u64;
    if (which == most_sources + most_sinks)
      welcome();
    else
      hear(which);
  }
}

void ShmWire::hear(std::size_t which) noexcept {
  const bool sends = which < most_sources;
  End& end = sends ? sources_[which] : sinks_[which - most_sources];
  if (!end.socket) return;
  if (sends && !end.ring) {
    if (!get_ring(end)) forget(end);
  } else if (!drain(end.socket.get(), asked_)) {
    if (!sends) return leave(end);
    // What he put before he went is still taken.
    end.ring.end();
    end.ended = true;
    end.socket.reset();
  }
}

bool ShmWire::get_ring(End& source) noexcept {
  char first;
  const ssize_t n = ::recv(source.socket.get(), &first, 1, MSG_DONTWAIT | MSG_PEEK);
  if (n < 0 && errno == EAGAIN) return true;  // he has connected, and not said hello yet
  const Fd memory = receive_hello(source.socket.get(), source.slot);
  if (!memory || !source.ring.open(memory.get())) return false;
  if (asked_) (void)source.ring.sleep();
  return true;
}

void ShmWire::welcome() noexcept {
  for (int i = 0; i < 8; i++) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    std::size_t at = 0;
    while (at < most_sources && (sources_[at].socket || sources_[at].ring)) at++;
    if (at == most_sources || !is_ours(socket.get()) || !watch(socket.get(), at)) continue;
    sources_[at].socket = OwnFd(std::move(socket));
    sources_end_ = std::max(sources_end_, at + 1);
    hear(at);  // his hello may be there
  }
}

}  // namespace kilim::vhca::wire
