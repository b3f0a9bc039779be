// SPDX-License-Identifier: BSD-3-Clause
#include "child.hh"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kilim::exam {
namespace {

constexpr std::size_t most_text = std::size_t{8} << 20;
constexpr double seconds_to_die = 10;

double now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

[[noreturn]] void child(Ask ask, const Setting& setting, int fd, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  Answer answer(fd);
  ask(setting, answer);
  Answer::done();
}

// Until the child closed its end, said too much, or the time is over: true, it is over.
bool read_until(int fd, double deadline, std::string& text) {
  char part[65536];
  while (text.size() < most_text) {
    const double left = deadline - now();
    if (left <= 0) return true;
    pollfd p{fd, POLLIN, 0};
    const int ready = ::poll(&p, 1, static_cast<int>(left * 1000) + 1);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    const ssize_t n = ::read(fd, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.append(part, static_cast<std::size_t>(n));
  }
  return false;
}

// False: it does not end, as a process in the kernel's hands.
bool wait_bounded(pid_t pid, double deadline, int& status) {
  do {
    if (::waitpid(pid, &status, WNOHANG) == pid) return true;
    const timespec pause{0, 1000000};
    ::nanosleep(&pause, nullptr);
  } while (now() < deadline);
  return false;
}

void kill_and_wait(pid_t pid, Found& found, double seconds) {
  int status = 0;
  ::kill(pid, SIGKILL);
  const bool gone = wait_bounded(pid, now() + seconds_to_die, status);
  found.ending = Ending::hung;
  found.why = printed("no answer within %.0f s: the child was killed%s", seconds,
                      gone ? "" : " and does not end: the kernel holds it");
}

}  // namespace

Found ask_in_child(Ask ask, const Setting& setting, double seconds) {
  Found found;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    found.why = printed("no pipe could be made: %s", std::strerror(errno));
    return found;
  }
  std::fflush(nullptr);
  const double start = now();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) child(ask, setting, ends[1], parent);
  ::close(ends[1]);
  std::string text;
  const bool late = pid > 0 && read_until(ends[0], start + seconds, text);
  ::close(ends[0]);
  read_lines(text, found);
  if (pid < 0) {
    found.why = printed("no process could be made: %s", std::strerror(errno));
    return found;
  }
  int status = 0;
  if (late || !wait_bounded(pid, start + seconds, status)) {
    kill_and_wait(pid, found, seconds);
  } else if (WIFSIGNALED(status)) {
    found.ending = Ending::died;
    found.why = printed("the child died of signal %d (%s)", WTERMSIG(status),
                        ::strsignal(WTERMSIG(status)));
  } else if (found.ending == Ending::died) {
    found.why =
        printed("the child ended with status %d and without a verdict", WEXITSTATUS(status));
  }
  found.seconds = now() - start;
  return found;
}

}  // namespace kilim::exam
