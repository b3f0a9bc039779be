// SPDX-License-Identifier: BSD-3-Clause
// A forked child that touches its copy of the memory, lets its parent go on, and looks at its copy
// again. One thread; waits for the child, which ends with its parent at the latest.
#pragma once

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kilim::test {

class ForkedChild {
 public:
  // `touch` runs in the child at once, `judge` when its parent is done.
  template <typename Touch, typename Judge>
  ForkedChild(Touch touch, Judge judge) {
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      char word = 1;
      ::close(ends_[0]);
      touch();
      const bool told = ::write(ends_[1], &word, 1) == 1 && ::read(ends_[1], &word, 1) == 0;
      ::_exit(told && judge() ? 0 : 1);
    }
    ::close(ends_[1]);
  }
  ~ForkedChild() { (void)good(); }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;

  // Waits until it has touched its memory.
  [[nodiscard]] bool touched() const {
    char word = 0;
    return pid_ > 0 && ::read(ends_[0], &word, 1) == 1;
  }
  // Lets it judge.
  [[nodiscard]] bool good() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
    int status = -1;
    const bool ended = pid_ > 0 && ::waitpid(pid_, &status, 0) == pid_;
    pid_ = -1;
    return ended && status == 0;
  }

 private:
  int ends_[2] = {-1, -1};
  pid_t pid_ = -1;
};

}  // namespace kilim::test
