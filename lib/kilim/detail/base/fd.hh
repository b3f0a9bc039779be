// SPDX-License-Identifier: BSD-3-Clause
// Fd: a file descriptor that closes itself. Owner: whoever holds it; move-only. Control path.
#pragma once

#include <utility>

#include <unistd.h>

namespace kilim::inline v1 {

class Fd {
 public:
  Fd() = default;
  // Takes over `fd`; negative: no descriptor, as open(2) returns it after an error.
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Fd& operator=(Fd&& o) noexcept {
    if (this != &o) {
      reset();
      fd_ = std::exchange(o.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  // Returns the descriptor, which the caller closes.
  int release() noexcept { return std::exchange(fd_, -1); }
  // Closes the descriptor, if there is one. An error of close(2) is not reported.
  void reset() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace kilim::inline v1
