// SPDX-License-Identifier: BSD-3-Clause
// Spin, protect, look once more, sleep. No doorbell is lost: a store before the protection is seen
// by the look after it, a store after it traps. What a store that traps announces is done at once,
// and the page stays open until the store is seen: a client that is slow to run traps once, not
// each time that it tries. A store may also wait at an open page (write_protect.hh), so the thread
// serves the descriptor behind each sleep.

#include "vhca/entry/progress_thread.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <utility>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "vhca/entry/raw.hh"
#include "vhca/hca/fatal.hh"
#include "vhca/hca/hca.hh"
#include "vhca/memory/valgrind.hh"

namespace kilim::vhca::entry {
namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr std::size_t stack_bytes = 1 << 20;
constexpr std::size_t signal_stack_bytes = 128 << 10;
constexpr uint64_t us_ns = 1'000, ms_ns = 1'000'000;
constexpr int look_in_ms = 1;     // while pages cannot be watched, or wires not be asked
constexpr uint64_t busy_us = 50;  // the thread waits so long while another thread runs the adapter
constexpr uint64_t no_end = UINT64_MAX;
// How long a sleep without a timer lasts before it is looked whether its descriptors are still the
// thread's: a client that closes them all and has others behind the numbers would never end it.
constexpr uint64_t descriptor_look_ns = 100 * ms_ns;
constexpr int fruitless_max = 2;         // wake-ups by a wire whose frame cannot be taken yet
constexpr int fruitless_beside_max = 8;  // the same beside clients, which may have taken it

uint64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * second_ns + static_cast<uint64_t>(t.tv_nsec);
}

// Where the program was started to run. A DPDK program opens the device on an lcore, a thread that
// is bound to one processor and spins on it: ours would share it for ever.
struct Processors {
  cpu_set_t set;
  bool known = false;
};
Processors first_processors;
[[gnu::constructor]] void note_processors() noexcept {
  first_processors.known = ::sched_getaffinity(0, sizeof(cpu_set_t), &first_processors.set) == 0;
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
  if (!wake_.open() || !guard_.open()) return false;
  if (memory::under_valgrind()) {
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
  if (first_processors.known)
    pthread_attr_setaffinity_np(&attr, sizeof(cpu_set_t), &first_processors.set);
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
  ::prctl(PR_SET_TIMERSLACK, us_ns, 0, 0, 0);  // ordinary threads' sleeps end up to 50 us late
  ask_for_short_slices();
  const memory_reserve::Scope scope;
  static_cast<ProgressThread*>(self)->place_.begin();
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
  wake_.call();
}

std::size_t ProgressThread::work() noexcept {
  if (!hca_.lock.try_lock()) return 0;
  const std::size_t did = hca_.run();
  if (did != 0) guard_.thread_found();
  hca_.lock.unlock();
  add(turns_);
  return did;
}

ProgressCounts ProgressThread::counts() const noexcept {
  return {turns_.load(std::memory_order_relaxed),        sleeps_.load(std::memory_order_relaxed),
          traps_.load(std::memory_order_relaxed),        blind_.load(std::memory_order_relaxed),
          system_calls_.load(std::memory_order_relaxed), frames_.load(std::memory_order_relaxed)};
}

void ProgressThread::run() noexcept {
  for (;;) {
    if (work() != 0) {
      fruitless_wakes_ = 0;
      const uint64_t doorbells = hca_.doorbells.load(std::memory_order_relaxed);
      spin_.found(std::exchange(doorbells_seen_, doorbells) != doorbells);
      continue;
    }
    if (store_looks_left_ != 0 &&
        hca_.doorbells.load(std::memory_order_relaxed) != doorbells_before_)
      store_looks_left_ = 0;
    if (polls_.any()) {
      sleep_beside_polls();
    } else if (spin_.take()) {
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
  const bool store = wait(look_in_ms * ms_ns, fruitless_wakes_ < fruitless_max).store;
  asleep_.store(false, std::memory_order_relaxed);
  if (store) let_stores_go();
}

// Doorbells do not trap: who polls runs the adapter after its own.
void ProgressThread::sleep_beside_polls() noexcept {
  asleep_.store(true, std::memory_order_seq_cst);
  const Woken woken = wait_beside_polls();
  asleep_.store(false, std::memory_order_relaxed);
  if (woken.store) let_stores_go();
  const bool in_time = !woken.called && !woken.frame;
  polls_.slept(in_time, __builtin_ia32_rdtsc());
  if (in_time && !polls_.polls_on()) guard_.rouse();
}

// A client that rings or calls will do so again: after that, spin for a while.
void ProgressThread::sleep_trapped() noexcept {
  asleep_.store(true, std::memory_order_seq_cst);
  const bool open = store_looks_left_ != 0;
  uint64_t ns_max = no_end;
  if (open)
    ns_max = look_in_ms * ms_ns << (store_looks - store_looks_left_--);
  else
    add(system_calls_, protect_.protect());
  const bool quiet = work() == 0 && !hca_.uars.pending();
  Woken woken{!quiet};
  if (quiet) woken = wait(ns_max, fruitless_wakes_ < fruitless_max);
  asleep_.store(false, std::memory_order_relaxed);
  if (!open || woken.store) let_stores_go();
  if (woken.called) spin_.restart();
}

void ProgressThread::let_stores_go() noexcept {
  doorbells_before_ = hca_.doorbells.load(std::memory_order_relaxed);
  const WriteProtect::Released released = protect_.release();
  if (released.lost) lose_descriptors();
  add(system_calls_, released.system_calls);
  if (released.traps == 0) return;
  add(traps_);
  store_looks_left_ = store_looks;
  hca_.lock.lock();
  hca_.expect_stores();
  hca_.lock.unlock();
}

// What was allocated for work under way is made good before the thread sleeps. An adapter that has
// used all of the reserve, and gets none, dies before it meets an allocation that cannot fail.
void ProgressThread::keep_reserve() noexcept {
  if (memory_reserve::fill() || !memory_reserve::exhausted()) return;
  hca_.lock.lock();
  if (!hca_.context.dead) hca::die(hca_);
  hca_.lock.unlock();
}

// Fills the answers of waited_. A client may close the thread's descriptors and have others behind
// their numbers: poll(2) looks at numbers again each time that something wakes it, so it would not
// end. When it does, nothing holds the old userfaultfd any more, and the kernel lets all stores go.
void ProgressThread::poll(uint64_t ns_max) noexcept {
  for (;;) {
    const uint64_t ns = std::min(ns_max, descriptor_look_ns);
    const timespec timeout{static_cast<time_t>(ns / second_ns), static_cast<long>(ns % second_ns)};
    const uint64_t begun = now_ns();
    const int ready = ::ppoll(waited_.data(), waited_.size(), &timeout, nullptr);
    if (ready == 0) place_.woken_late(std::max(now_ns(), begun + ns) - begun - ns);
    add(system_calls_);
    if (ready != 0 || ns == ns_max) return;
    if (!(wake_lost_ || wake_.ours()) || !protect_.has_descriptor()) return lose_descriptors();
    if (ns_max != no_end) ns_max -= ns;
  }
}

// From now on the thread looks for doorbells itself, and needs none to wake it.
void ProgressThread::lose_descriptors() noexcept {
  protect_.lose_descriptor();
  wake_lost_ = true;
  if (!timed_.exchange(true))
    std::fprintf(stderr,
                 "kilim-vhca: the program has closed descriptors that are the device's own: "
                 "doorbells are looked for every %d ms\n",
                 look_in_ms);
}

// Until a trap or a kick, a frame, the next timer, or `ns_max` (no_end: none) has gone by.
ProgressThread::Woken ProgressThread::wait(uint64_t ns_max, bool with_wires) noexcept {
  uint64_t deadline = no_end;
  keep_reserve();
  wires_.clear();
  if (hca_.lock.try_lock()) {
    guard_.leave();
    hca_.wait_set(wires_, deadline);
    hca_.lock.unlock();
  } else {
    ns_max = std::min(ns_max, busy_us * us_ns);
  }
  if (!with_wires && !wires_.empty()) {
    ns_max = std::min(ns_max, look_in_ms * ms_ns);
    add(blind_);
  }

  begin_waited();
  if (with_wires) {
    for (int fd : wires_) waited_.push_back({fd, POLLIN, 0});
  }
  Woken woken = sleep_until(ns_max, deadline);
  // After a moment without the wires, one more try with them.
  if (woken.called || !with_wires) fruitless_wakes_ = woken.called ? 0 : fruitless_max - 1;
  if (woken.frame) fruitless_wakes_++;
  return woken;
}

// Waits beside clients that poll: frames wake the thread as the guard has it, and a wire whose
// frames cannot be taken yet does not wake it again and again.
ProgressThread::Woken ProgressThread::wait_beside_polls() noexcept {
  uint64_t deadline = no_end;
  keep_reserve();
  uint64_t ns_max = polls_.sleep_us() * us_ns;
  if (!guard_.prepare(deadline))
    ns_max = ClientPolls::us_min * us_ns;
  else if (!guard_.hushed())
    ns_max = std::max(ns_max, ClientPolls::us_guarded * us_ns);
  if (guard_.hushed()) add(blind_);
  place_.client_at(guard_.client_cpu());
  begin_waited();
  if (fruitless_wakes_ < fruitless_beside_max) waited_.push_back({guard_.fd(), POLLIN, 0});
  const Woken woken = sleep_until(ns_max, deadline);
  if (woken.frame) {
    guard_.woken();
    fruitless_wakes_++;
  } else {
    fruitless_wakes_ = 0;
  }
  return woken;
}

void ProgressThread::begin_waited() noexcept {
  waited_.assign({{wake_lost_ ? -1 : wake_.fd(), POLLIN, 0}, {protect_.fd(), POLLIN, 0}});
}

ProgressThread::Woken ProgressThread::sleep_until(uint64_t ns_max, uint64_t deadline) noexcept {
  if (deadline != no_end) {
    const uint64_t now = now_ns();
    ns_max = std::min(ns_max, deadline > now ? deadline - now : 0);
  }
  poll(ns_max);
  add(sleeps_);
  if (waited_[0].revents != 0) {
    if (!wake_.clear()) lose_descriptors();
    add(system_calls_, 2);
  }
  Woken woken;
  woken.store = waited_[1].revents != 0;
  woken.called = woken.store || waited_[0].revents != 0;
  for (std::size_t i = 2; i < waited_.size(); i++)
    woken.frame = woken.frame || waited_[i].revents != 0;
  if (woken.frame) add(frames_);
  return woken;
}

void ProgressThread::after_fork_in_child() noexcept {
  protect_.after_fork_in_child();
  wake_.reset();
  guard_.after_fork_in_child();
  asleep_.store(false, std::memory_order_relaxed);
}

}  // namespace kilim::vhca::entry
