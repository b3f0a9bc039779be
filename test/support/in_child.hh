// SPDX-License-Identifier: BSD-3-Clause
// A forked child does something. The parent waits; a child that hangs is ended.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace kilim::test {

// What f() returns in a child; -1: it did not end of its own accord.
template <typename F>
int in_child(F f, unsigned most_seconds = 60) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(most_seconds);
    ::_exit(f());
  }
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace kilim::test
