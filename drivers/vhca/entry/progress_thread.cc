// SPDX-License-Identifier: BSD-3-Clause
// Spin, protect, look once more, sleep. No doorbell is lost: a store before the protection is seen
// by the look after it, a store after it traps. What a store that traps announces is done at once,
// and the page stays open until the store is seen: a client that is slow to run traps once, not
// each time that it tries.

#include "vhca/entry/progress_thread.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "vhca/entry/raw.hh"
#include "vhca/hca/hca.hh"
#include "vhca/memory/valgrind.hh"

namespace kilim::vhca {
namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr std::size_t stack_bytes = 1 << 20;
constexpr std::size_t signal_stack_bytes = 128 << 10;
constexpr int look_in_ms = 1;     // while clients poll, or pages cannot be watched
constexpr int fruitless_max = 2;  // wake-ups by a wire whose frame cannot be taken yet

uint64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * second_ns + static_cast<uint64_t>(t.tv_nsec);
}

void pause_briefly() noexcept {
  __builtin_ia32_pause();
}

// As the kernel declares it (include/uapi/linux/sched/types.h, its first version); libc does not.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = 0;  // SCHED_OTHER
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;  // of SCHED_OTHER: the slice
  uint64_t deadline = 0;
  uint64_t period = 0;
};

// A thread that works little and often runs sooner when it is woken beside others that spin: since
// Linux 6.12 the slice of an ordinary thread may be chosen (kernel/sched/syscalls.c,
// __setparam_fair). Older kernels take the call and change nothing.
void ask_for_short_slices() noexcept {
  SchedAttr attr;
  if (::syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0 || attr.policy != 0) return;
  attr.runtime = 100'000;  // nanoseconds, the least that is taken
  ::syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace

bool ProgressThread::start() noexcept {
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return false;
  if (under_valgrind()) {
    timed_.store(true, std::memory_order_relaxed);
  } else if (const char* why = protect_.open(); why != nullptr) {
    timed_.store(true, std::memory_order_relaxed);
    std::fprintf(stderr, "kilim-vhca: %s: doorbells are looked for every %d ms\n", why, look_in_ms);
  }
  wires_.reserve(64);
  waited_.reserve(64);

  sigset_t blocked, before;
  sigfillset(&blocked);
  sigdelset(&blocked, SIGSEGV);
  sigdelset(&blocked, SIGBUS);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, stack_bytes);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  pthread_t thread;
  const bool ok = pthread_create(&thread, &attr, &ProgressThread::main, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attr);
  return ok;
}

void* ProgressThread::main(void* self) noexcept {
  void* memory = raw::map(nullptr, signal_stack_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) {
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = signal_stack_bytes;
    sigaltstack(&stack, nullptr);
  }
  pthread_setname_np(pthread_self(), "kilim-vhca");
  ask_for_short_slices();
  static_cast<ProgressThread*>(self)->run();
  return nullptr;
}

void ProgressThread::watch(void* page, std::size_t length) noexcept {
  if (!protect_.add(page, length)) timed_.store(true, std::memory_order_relaxed);
  kick();
}

void ProgressThread::look_often() noexcept {
  timed_.store(true, std::memory_order_seq_cst);
  kick();
}

void ProgressThread::kick() noexcept {
  if (!asleep_.load(std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = raw::write(wake_.get(), &one, sizeof(one));
}

std::size_t ProgressThread::work() noexcept {
  if (!hca_.lock.try_lock()) return 0;
  const std::size_t did = hca_.run();
  hca_.lock.unlock();
  add(turns_);
  return did;
}

ProgressCounts ProgressThread::counts() const noexcept {
  return {turns_.load(std::memory_order_relaxed), sleeps_.load(std::memory_order_relaxed),
          traps_.load(std::memory_order_relaxed), system_calls_.load(std::memory_order_relaxed)};
}

bool ProgressThread::clients_poll() noexcept {
  const uint64_t polls = client_polls_.load(std::memory_order_relaxed);
  return std::exchange(client_polls_seen_, polls) != polls;
}

void ProgressThread::run() noexcept {
  for (;;) {
    if (work() != 0) {
      fruitless_wakes_ = 0;
      empty_turns_ = 0;
      continue;
    }
    if (store_looks_left_ != 0 &&
        hca_.doorbells.load(std::memory_order_relaxed) != doorbells_before_)
      store_looks_left_ = 0;
    if (clients_poll()) {
      sleep();
    } else if (empty_turns_ < spin_turns) {
      empty_turns_++;
      pause_briefly();
    } else if (timed_.load(std::memory_order_relaxed)) {
      sleep();
    } else {
      sleep_trapped();
    }
  }
}

// Without traps: looks in again after a moment.
void ProgressThread::sleep() noexcept {
  asleep_.store(true, std::memory_order_seq_cst);
  wait(look_in_ms, false);
  asleep_.store(false, std::memory_order_relaxed);
}

// A client that rings or calls will do so again: after that, spin for a while.
void ProgressThread::sleep_trapped() noexcept {
  asleep_.store(true, std::memory_order_seq_cst);
  const bool open = store_looks_left_ != 0;
  int timeout_ms = -1;
  if (open)
    timeout_ms = look_in_ms << (store_looks - store_looks_left_--);
  else
    add(system_calls_, protect_.protect());
  const bool quiet = work() == 0 && !hca_.uars.pending();
  const bool called = !quiet || wait(timeout_ms, fruitless_wakes_ < fruitless_max);
  asleep_.store(false, std::memory_order_relaxed);
  if (!open) let_stores_go();
  if (called) empty_turns_ = 0;
}

void ProgressThread::let_stores_go() noexcept {
  doorbells_before_ = hca_.doorbells.load(std::memory_order_relaxed);
  const WriteProtect::Released released = protect_.release();
  add(system_calls_, released.system_calls);
  if (released.traps == 0) return;
  add(traps_);
  store_looks_left_ = store_looks;
  hca_.lock.lock();
  hca_.expect_stores();
  hca_.lock.unlock();
}

// Until a trap or a kick (true), a frame, the next timer, or `timeout_ms_max` (-1: none) has gone
// by.
bool ProgressThread::wait(int timeout_ms_max, bool with_wires) noexcept {
  uint64_t deadline = UINT64_MAX;
  wires_.clear();
  hca_.lock.lock();
  hca_.wait_set(wires_, deadline);
  hca_.lock.unlock();
  if (!with_wires && !wires_.empty()) timeout_ms_max = look_in_ms;

  waited_.assign({{wake_.get(), POLLIN, 0}, {protect_.fd(), POLLIN, 0}});
  if (with_wires) {
    for (int fd : wires_) waited_.push_back({fd, POLLIN, 0});
  }
  const uint64_t now = now_ns();
  uint64_t wait_ns =
      timeout_ms_max < 0 ? UINT64_MAX : static_cast<uint64_t>(timeout_ms_max) * 1'000'000;
  if (deadline != UINT64_MAX) wait_ns = std::min(wait_ns, deadline > now ? deadline - now : 0);
  timespec timeout{static_cast<time_t>(wait_ns / second_ns),
                   static_cast<long>(wait_ns % second_ns)};
  ::ppoll(waited_.data(), waited_.size(), wait_ns == UINT64_MAX ? nullptr : &timeout, nullptr);
  add(sleeps_);
  add(system_calls_);
  if (waited_[0].revents != 0) {
    uint64_t kicks;  // one read takes all
    [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &kicks, sizeof(kicks));
    add(system_calls_);
  }
  const bool called = (waited_[0].revents | waited_[1].revents) != 0;
  bool frame = false;
  for (std::size_t i = 2; i < waited_.size(); i++) frame = frame || waited_[i].revents != 0;
  // After a moment without the wires, one more try with them.
  if (called || !with_wires) fruitless_wakes_ = called ? 0 : fruitless_max - 1;
  if (frame) fruitless_wakes_++;
  return called;
}

void ProgressThread::after_fork_in_child() noexcept {
  protect_.after_fork_in_child();
  wake_.reset();
  asleep_.store(false, std::memory_order_relaxed);
}

}  // namespace kilim::vhca
