// SPDX-License-Identifier: BSD-3-Clause
// What wires over datagram sockets have in common: one system call for a row of frames each way. A
// sender whose socket is full asks no second time before there is room, and fd() tells of that too;
// a receiver that has emptied his socket, or asked for one frame alone (looks.hh), asks no second
// time in the same turn (while corked). Sockets whose numbers lead elsewhere by now, since the
// program closed them and opened files of its own, are a cable that is pulled. The first turn and
// each 64th look for that, a system call; until then the kernel refuses what is sent to a file
// (ENOTSOCK). Owner: the wire that derives from it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "kilim/detail/base/fd.hh"
#include "vhca/core/own_fd.hh"
#include "vhca/wire/looks.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

// For frames that a wire holds and has not shown: news that needs no kernel. Never closed.
int always_readable() noexcept;

class RowWire : public Wire {
 public:
  Sent send(std::span<const std::byte> frame) noexcept final;
  void cork(bool on) noexcept final {
    corked_ = on;
    if (on && --turns_to_look_ == 0) look_at_number();
    empty_ = pulled_;
  }
  bool flush() noexcept final { return push_out(); }
  [[nodiscard]] std::size_t held() const noexcept final { return end_ - first_; }
  bool has_room() noexcept final;
  [[nodiscard]] bool tells_room() const noexcept final { return true; }
  std::span<const std::byte> peek() noexcept final;
  void drop() noexcept final;
  [[nodiscard]] int fd() const noexcept final;
  [[nodiscard]] uint32_t mtu() const noexcept final { return mtu_; }
  [[nodiscard]] const WireCounters& counters() noexcept override { return counters_; }

  // Frames that leave together at most, and that are fetched at once. Of a row that does not leave
  // one frame is refused.
  static constexpr std::size_t row = 128, fetched = 32;

 protected:
  using Frame = std::span<const std::byte>;
  // A datagram that came.
  struct Arrival {
    const std::byte* at = nullptr;
    std::size_t bytes = 0;
  };
  // How many datagrams one call fetches, and how long they are at most.
  struct Inlet {
    std::size_t count, bytes;
  };
  RowWire(Fd socket, uint32_t mtu, Inlet);

  // Sends the first of some frames, as many as one call takes. How many are gone; those among them
  // that are lost are counted. 0: refused() has been called.
  virtual std::size_t put(std::span<const Frame>) noexcept = 0;
  // A call has failed with the news of what became of earlier frames: there may be more of that.
  virtual void forget_news() noexcept {}
  // Whether a datagram is a neighbour's.
  virtual bool admit(msghdr&, Arrival&) noexcept = 0;

  // One system call, send(2) for one frame: as sendmmsg(2), to `to` or to whom the socket is
  // connected.
  static int send_row(int socket, std::span<const Frame>, const sockaddr_un* to = nullptr,
                      socklen_t to_bytes = 0) noexcept;
  // One frame, to whom the socket is connected; false: errno says why.
  static bool send_one(int socket, Frame f) noexcept {
    return ::send(socket, f.data(), f.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  }
  // A socket has no room now; it is asked again when poll(2) says that it has.
  void refused(int socket) noexcept { full_ = socket; }
  // A socket is about to be closed.
  void closing(int socket) noexcept;

  OwnFd socket_;  // what comes in
  WireCounters counters_;

 private:
  // What recvmmsg(2) is told.
  struct In {
    // Room for the sender alone: descriptors that somebody sends along are closed.
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    sockaddr_un name;
    iovec piece;
  };
  bool is_full() noexcept;
  bool told_news() noexcept;
  bool push_out() noexcept;
  int fetch() noexcept;
  bool receive() noexcept;
  bool show_next() noexcept;
  int both() const noexcept;
  void look_at_number() noexcept;

  static constexpr uint32_t look_every = 64;  // turns

  uint32_t mtu_;
  bool corked_ = false;
  bool pulled_ = false;
  uint32_t turns_to_look_ = 1;
  bool empty_ = false;  // while corked: this turn looks no more
  Looks looks_;
  int full_ = -1;  // the socket that said EAGAIN
  // Frames that wait: out_[first_] up to out_[end_].
  std::size_t first_ = 0, end_ = 0;
  std::array<Frame, row> out_;
  std::unique_ptr<std::byte[]> out_memory_, in_memory_;
  Inlet inlet_;
  std::vector<In> in_;
  std::vector<mmsghdr> messages_;
  std::size_t written_;  // how many of them the kernel has written into
  std::vector<Arrival> arrivals_;
  std::size_t next_ = 0, arrived_ = 0;
  Frame shown_;               // by peek()
  mutable Fd both_;           // an epoll(7): socket_, and the one that is full
  mutable int watched_ = -1;  // that one
};

}  // namespace kilim::vhca::wire
