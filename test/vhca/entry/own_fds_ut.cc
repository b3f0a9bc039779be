// SPDX-License-Identifier: BSD-3-Clause
// A client that closes descriptors which are not its own, as a daemon does, and has others behind
// their numbers: doorbells are seen all the same, and nothing is written into the client's files.
// Each case in a process of its own; one that hangs ends by SIGALRM.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/core/own_fd.hh"
#include "vhca/entry/attach.hh"

using namespace kilim;
using namespace kilim::vhca;
using namespace std::chrono_literals;
using test::RcPair;

namespace own_fds_ut {
namespace {

constexpr int pipes = 30, highest = 200;

// All numbers behind the standard ones, by one call; and files of the client's in their place.
void close_and_open() {
  ::syscall(SYS_close_range, 3u, ~0u, 0u);
  for (int i = 0; i < pipes; i++) {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(10);
  }
}

// The same number by number: each that is open becomes the read end of one pipe, or the write end.
void put_over(int end) {
  int ends[2];
  if (::pipe(ends) != 0) ::_exit(10);
  for (int fd = 3; fd < highest; fd++) {
    if (fd != ends[0] && fd != ends[1] && ::fcntl(fd, F_GETFD) >= 0) ::dup2(ends[end], fd);
  }
}

// Whether bytes lie in a pipe that the client has made.
bool pipes_are_empty() {
  for (int fd = 3; fd < highest; fd++) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, 0) > 0 && (p.revents & POLLIN) != 0) return false;
  }
  return true;
}

bool write_arrives(RcPair& pair, uint8_t value) {
  std::memset(pair.from(), value, 64);
  if (pair.post_write(64) != 0) return false;
  ibv_wc wc{};
  while (ibv_poll_cq(pair.cq(), 1, &wc) == 0) ::sched_yield();
  return wc.status == IBV_WC_SUCCESS && pair.to()[63] == value;
}

// The child's answer: 0, or which step went wrong.
int child(void (*change)(), bool events) {
  ::alarm(20);
  DeviceSpec config;
  config.name = "daemon0";
  config.progress = Progress::thread;
  if (!entry::attach(config).ok()) return 1;
  ibv_context* context = test::open_by_name("daemon0");
  if (context == nullptr) return 2;
  RcPair pair(context, events);
  if (!pair.ok()) return 3;
  for (uint8_t i = 1; i <= 3; i++)
    if (!write_arrives(pair, i)) return 4;
  if (events && ibv_req_notify_cq(pair.cq(), 0) != 0) return 5;
  std::this_thread::sleep_for(100ms);  // the thread sleeps behind protected doorbells
  change();
  for (uint8_t i = 4; i <= 40; i++) {
    if (!write_arrives(pair, i)) return 6;
    if (i % 12 == 0) std::this_thread::sleep_for(5ms);
  }
  return pipes_are_empty() ? 0 : 7;
}

void goes_on(void (*change)(), bool events) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(child(change, events));
  int status = 0;
  EQUAL_FATAL(::waitpid(pid, &status, 0), pid);
  CU_ASSERT_FATAL(WIFEXITED(status));
  EQUAL(WEXITSTATUS(status), 0);
}

void closed_and_reused() {
  goes_on(&close_and_open, false);
}

void put_over_by_dup2() {
  goes_on([] { put_over(0); }, false);
}

void armed_queue_writes_to_nobody() {
  goes_on(&close_and_open, true);
  goes_on([] { put_over(1); }, true);
}

void a_stranger_is_not_closed() {
  int ends[2], others[2];
  EQUAL_FATAL(::pipe(ends), 0);
  EQUAL_FATAL(::pipe(others), 0);
  const int number = ends[0];
  {
    OwnFd own{Fd(number)};
    CU_ASSERT(own.ours());
    EQUAL(::dup2(others[0], number), number);
    CU_ASSERT(!own.ours());
  }
  CU_ASSERT(::fcntl(number, F_GETFD) >= 0);
  { OwnFd own{Fd(number)}; }
  CU_ASSERT(::fcntl(number, F_GETFD) < 0);
  for (int fd : {ends[1], others[0], others[1]}) ::close(fd);
}

const test::Case cases[] = {
    {"a daemon that closes all descriptors and opens others rings doorbells", closed_and_reused},
    {"one that puts a pipe over each of them does too", put_over_by_dup2},
    {"an event of an armed queue is not written into the client's pipe",
     armed_queue_writes_to_nobody},
    {"a descriptor that leads to another's file is neither ours nor closed",
     a_stranger_is_not_closed},
};

}  // namespace
}  // namespace own_fds_ut

KILIM_TEST_SUITE(own_fds, own_fds_ut::cases)
