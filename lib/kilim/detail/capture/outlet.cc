// SPDX-License-Identifier: BSD-3-Clause
// open(2), fifo(7), pipe(7): a pipe that is written to without O_NONBLOCK waits for its reader, in
// open() for the first one.
#include "kilim/detail/capture/outlet.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace kilim::inline v1::capture {
namespace {

constexpr std::size_t buffer_bytes = 64 << 10;
constexpr int end_patience_ms = 1000, reader_patience_ms = 2000, look_every_ms = 20;

bool is_pipe(const std::string& path) noexcept {
  struct stat st;
  return ::stat(path.c_str(), &st) == 0 && S_ISFIFO(st.st_mode);
}

// Blocks SIGPIPE, which the thread that writes to a pipe without a reader would get (pipe(7)).
class NoPipeSignal {
 public:
  NoPipeSignal() noexcept {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t waiting;
    sigpending(&waiting);
    theirs_ = sigismember(&waiting, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    constexpr timespec at_once{0, 0};
    const int kept = errno;  // write(2)'s, which the caller tells
    if (!theirs_) (void)sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = kept;
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_, before_;
  bool theirs_;
};

}  // namespace

Outlet::Outlet(Fd fd)
    : fd_(std::move(fd)),
      buffer_(new std::byte[buffer_bytes]),
      ending_(std::make_unique<std::atomic<bool>>(false)),
      patience_ms_(end_patience_ms) {}

Result<Outlet> Outlet::open(const std::string& path) {
  constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  constexpr timespec pause{0, look_every_ms * 1'000'000};
  Fd fd;
  for (int waited_ms = 0;; waited_ms += look_every_ms) {
    fd = Fd(::open(path.c_str(), flags, 0666));
    if (fd || errno != ENXIO || !is_pipe(path) || waited_ms >= reader_patience_ms) break;
    ::nanosleep(&pause, nullptr);
  }
  if (fd) return Outlet(std::move(fd));
  if (errno == ENXIO && is_pipe(path))
    return Error{ENXIO, "nobody reads the pipe for the capture: start its reader first"};
  return Error{errno, "the capture's file cannot be written"};
}

// While the capture runs its packets are counted as left out meanwhile.
bool Outlet::wait_for_room() noexcept {
  constexpr int step_ms = 50;
  pollfd room{fd_.get(), POLLOUT, 0};
  for (;;) {
    if (::poll(&room, 1, step_ms) > 0) return true;
    if (!ending_->load(std::memory_order_acquire)) continue;
    if (patience_ms_ <= 0) return false;
    patience_ms_ -= step_ms;
  }
}

bool Outlet::write_out(const std::byte* from, std::size_t n) noexcept {
  const NoPipeSignal guard;
  while (n > 0) {
    const ssize_t done = ::write(fd_.get(), from, n);
    if (done >= 0) {
      from += done;
      n -= static_cast<std::size_t>(done);
    } else if (errno == EAGAIN) {
      if (!wait_for_room()) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool Outlet::flush() noexcept {
  good_ = good_ && write_out(buffer_.get(), std::exchange(used_, 0));
  return good_;
}

bool Outlet::write(const void* bytes, std::size_t n) noexcept {
  const auto* from = static_cast<const std::byte*>(bytes);
  while (good_ && n > 0) {
    const std::size_t part = std::min(n, buffer_bytes - used_);
    std::memcpy(buffer_.get() + used_, from, part);
    used_ += part;
    from += part;
    n -= part;
    if (used_ == buffer_bytes) (void)flush();
  }
  return good_;
}

bool Outlet::close() noexcept {
  const bool written = flush();
  return ::close(fd_.release()) == 0 && written;
}

}  // namespace kilim::inline v1::capture
