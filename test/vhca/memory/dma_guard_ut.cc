// SPDX-License-Identifier: BSD-3-Clause
// The handler of the guarded copy among the process's other handlers: each case in a child.
#include <cerrno>
#include <cstring>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ut.hh"
#include "vhca/memory/dma.hh"
#include "vhca/memory/dma_guard.hh"

using namespace kilim;
using namespace kilim::vhca;

namespace dma_guard_ut {
namespace {

constexpr int seen = 42;
std::byte* bad_page;
struct sigaction before_theirs;

// The exit code of a child that runs `body`, or 1000 + the signal that ended it.
int outcome(void (*body)()) {
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Ended by whatever was at the bottom: the signal, or a sanitizer's report. Not by the alarm.
bool ended(int code) {
  return code != 0 && code != seen && code != 1000 + SIGALRM;
}

void fault() {
  *reinterpret_cast<volatile char*>(bad_page + 24) = 1;
}

bool still_guarded() {
  uint64_t v = 0;
  return !memory::dma::load(Va{reinterpret_cast<uint64_t>(bad_page)}, v);
}

void set(int sig, void (*handler)(int, siginfo_t*, void*), struct sigaction* old = nullptr) {
  struct sigaction a {};
  a.sa_sigaction = handler;
  a.sa_flags = SA_SIGINFO;
  sigaction(sig, &a, old);
}

void check_and_leave(int sig, siginfo_t* info, void* context) {
  bool right = sig == SIGSEGV && info->si_addr == bad_page + 24 && context != nullptr;
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  right = right && sigismember(&blocked, SIGSEGV) == 1;
  _exit(right ? seen : 1);
}

void repair(int, siginfo_t*, void*) {
  mprotect(bad_page, 4096, PROT_READ | PROT_WRITE);
}

// Leaves as no death does when handlers call each other in circles.
void not_for_ever() {
  static int rounds = 0;
  if (++rounds > 3) _exit(seen);
}

void call_the_one_before(int sig, siginfo_t* info, void* context) {
  not_for_ever();
  before_theirs.sa_sigaction(sig, info, context);
}

void raise_for_the_one_before(int sig, siginfo_t*, void*) {
  not_for_ever();
  sigaction(sig, &before_theirs, nullptr);
  raise(sig);
}

void a_handler_set_before_ours_gets_its_own_faults() {
  EQUAL(outcome([] {
          set(SIGSEGV, check_and_leave);
          memory::dma::check_on_top();
          fault();
        }),
        seen);
}

void a_handler_that_repairs_lets_the_program_go_on() {
  EQUAL(outcome([] {
          set(SIGSEGV, repair);
          memory::dma::check_on_top();
          fault();
          fault();
          _exit(static_cast<int>(bad_page[24]) == 1 ? seen : 1);
        }),
        seen);
}

void without_another_handler_a_fault_ends_the_process() {
  EQUAL(outcome([] {
          signal(SIGSEGV, SIG_DFL);
          memory::dma::check_on_top();
          if (still_guarded()) fault();
        }),
        1000 + SIGSEGV);
}

void a_signal_that_was_sent_ends_the_process_too() {
  EQUAL(outcome([] {
          signal(SIGBUS, SIG_DFL);
          memory::dma::check_on_top();
          kill(getpid(), SIGBUS);
        }),
        1000 + SIGBUS);
}

void an_ignored_signal_is_ignored_only_where_it_was_sent() {
  auto ignored = [] {
    signal(SIGSEGV, SIG_IGN);
    memory::dma::check_on_top();
    kill(getpid(), SIGSEGV);
    _exit(seen);
  };
  EQUAL(outcome(ignored), seen);
  EQUAL(outcome([] {
          signal(SIGSEGV, SIG_IGN);
          memory::dma::check_on_top();
          fault();
        }),
        1000 + SIGSEGV);
}

void a_handler_set_later_is_overtaken_and_said_once() {
  EQUAL(outcome([] {
          if (memory::dma::check_on_top()) _exit(1);
          set(SIGSEGV, check_and_leave);
          if (!memory::dma::check_on_top() || memory::dma::check_on_top()) _exit(2);
          if (!still_guarded()) _exit(3);
          fault();
        }),
        seen);
}

void a_handler_that_calls_the_one_before_does_not_go_round() {
  CU_ASSERT(ended(outcome([] {
    signal(SIGSEGV, SIG_DFL);
    memory::dma::check_on_top();
    set(SIGSEGV, call_the_one_before, &before_theirs);
    memory::dma::check_on_top();
    fault();
  })));
}

void a_handler_that_raises_for_the_one_before_does_not_go_round() {
  CU_ASSERT(ended(outcome([] {
    signal(SIGSEGV, SIG_DFL);
    memory::dma::check_on_top();
    set(SIGSEGV, raise_for_the_one_before, &before_theirs);
    memory::dma::check_on_top();
    fault();
  })));
}

void an_interposed_sigaction_keeps_ours_in_front() {
  EQUAL(outcome([] {
          struct sigaction a {
          }, old{}, now{};
          a.sa_sigaction = check_and_leave;
          a.sa_flags = SA_SIGINFO;
          sigaddset(&a.sa_mask, SIGUSR1);
          if (memory::dma::client_sigaction(SIGSEGV, &a, &old) != 0) _exit(1);
          if (memory::dma::client_sigaction(SIGSEGV, nullptr, &now) != 0) _exit(2);
          if (now.sa_sigaction != check_and_leave || now.sa_flags != SA_SIGINFO ||
              sigismember(&now.sa_mask, SIGUSR1) != 1)
            _exit(3);
          if (memory::dma::check_on_top() || !still_guarded()) _exit(4);
          fault();
        }),
        seen);
  CU_ASSERT(memory::dma::client_sigaction(SIGINT, nullptr, nullptr) == -1 && errno == EINVAL);
}

void a_thread_that_blocks_the_signals_can_be_told() {
  CU_ASSERT(memory::dma::signals_open());
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGBUS);
  sigprocmask(SIG_BLOCK, &one, nullptr);
  CU_ASSERT(!memory::dma::signals_open());
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
}

constexpr test::Case cases[] = {
    {"a handler set before ours gets its own faults",
     a_handler_set_before_ours_gets_its_own_faults},
    {"a handler that repairs lets the program go on",
     a_handler_that_repairs_lets_the_program_go_on},
    {"without another handler a fault ends the process",
     without_another_handler_a_fault_ends_the_process},
    {"a signal that was sent ends the process too", a_signal_that_was_sent_ends_the_process_too},
    {"an ignored signal is ignored only where it was sent",
     an_ignored_signal_is_ignored_only_where_it_was_sent},
    {"a handler set later is overtaken, said once", a_handler_set_later_is_overtaken_and_said_once},
    {"a handler that calls the one before does not go round",
     a_handler_that_calls_the_one_before_does_not_go_round},
    {"a handler that raises for the one before does not go round",
     a_handler_that_raises_for_the_one_before_does_not_go_round},
    {"an interposed sigaction keeps ours in front", an_interposed_sigaction_keeps_ours_in_front},
    {"a thread that blocks the signals can be told", a_thread_that_blocks_the_signals_can_be_told},
};

}  // namespace
}  // namespace dma_guard_ut

KILIM_TEST_MAIN(dma_guard) {
  dma_guard_ut::bad_page =
      static_cast<std::byte*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (!memory::dma::install()) return 2;
  return test::run_cases("vhca/memory/dma_guard", dma_guard_ut::cases, argc, argv);
}
