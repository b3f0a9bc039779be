// SPDX-License-Identifier: BSD-3-Clause
// Descriptors of the adapter's own among the client's: their numbers are the client's to close (a
// daemon calls closefrom(3)) and then lead to files of its own, which must not be read, written or
// closed by us. Owner: whoever holds one. Asks the kernel itself, since the C library's calls may
// be interposed. Never blocks; no lock.
#pragma once

#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"

namespace kilim::vhca {

// Keeps the identity of its file, which has to be one of its own: pipes, sockets, memfds and
// userfaultfds (since Linux 5.12) have an inode each, eventfds and timers share one.
class OwnFd {
 public:
  OwnFd() = default;
  explicit OwnFd(Fd fd) noexcept : fd_(std::move(fd)) {
    struct stat st;
    if (!fd_ || ::syscall(SYS_fstat, fd_.get(), &st) != 0) return;  // errno says why there is none
    inode_ = st.st_ino;
    mount_ = st.st_dev;
  }
  OwnFd(OwnFd&&) = default;
  OwnFd& operator=(OwnFd&& o) noexcept {
    if (this == &o) return *this;
    reset();
    fd_ = std::move(o.fd_);
    inode_ = o.inode_;
    mount_ = o.mount_;
    return *this;
  }
  ~OwnFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  // Whether the number still leads to our file: a system call.
  [[nodiscard]] bool ours() const noexcept {
    struct stat st;
    return ::syscall(SYS_fstat, fd_.get(), &st) == 0 && st.st_ino == inode_ && st.st_dev == mount_;
  }
  // Closes our file, and leaves a stranger's alone.
  void reset() noexcept {
    if (fd_ && !ours()) fd_.release();
    fd_.reset();
  }

 private:
  Fd fd_;
  ino_t inode_ = 0;
  dev_t mount_ = 0;
};

// Ends the sleep of a thread that polls fd(). A pipe, since an eventfd has no identity of its own.
class WakePipe {
 public:
  // False: no descriptor is left.
  bool open() noexcept {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    read_end_ = OwnFd(Fd(ends[0]));
    write_end_ = OwnFd(Fd(ends[1]));
    return true;
  }
  [[nodiscard]] int fd() const noexcept { return read_end_.get(); }
  [[nodiscard]] bool ours() const noexcept { return read_end_.ours() && write_end_.ours(); }
  // Any thread. A full pipe wakes as well as one more byte would.
  void call() const noexcept {
    const char byte = 0;
    if (write_end_.ours()) (void)!::syscall(SYS_write, write_end_.get(), &byte, sizeof(byte));
  }
  // Takes the calls up to now; the thread that sleeps. False: the pipe is ours no more.
  [[nodiscard]] bool clear() const noexcept {
    char bytes[64];
    if (!read_end_.ours()) return false;
    (void)!::syscall(SYS_read, read_end_.get(), bytes, sizeof(bytes));
    return true;
  }
  void reset() noexcept {
    read_end_.reset();
    write_end_.reset();
  }

 private:
  OwnFd read_end_, write_end_;
};

}  // namespace kilim::vhca
