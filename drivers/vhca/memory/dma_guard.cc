// SPDX-License-Identifier: BSD-3-Clause
// The handler behind the guarded copy, and its place among the process's other handlers.
// Speaks to the kernel directly: sigaction(3) may be interposed, by us among others.
#include "vhca/memory/dma_guard.hh"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "vhca/memory/dma_inline.hh"

namespace kilim::vhca::memory::dma {

// Labels of dma_x86.S: the guarded routines, and where they go on after a fault.
extern "C" {
extern const char kilim_dma_begin[];
extern const char kilim_dma_end[];
extern const char kilim_dma_fault[];
void kilim_dma_restorer() noexcept;
}

// The table of moves in line; the linker makes its names from the section's.
#define KILIM_OF_LINKER gnu::weak, gnu::visibility("hidden")
[[KILIM_OF_LINKER]] extern const Site sites_begin[] asm("__start_kilim_dma_sites");
[[KILIM_OF_LINKER]] extern const Site sites_end[] asm("__stop_kilim_dma_sites");
#undef KILIM_OF_LINKER

namespace {

constexpr unsigned long restorer_flag = 0x04000000;  // SA_RESTORER, <asm/signal.h>

// struct sigaction as the kernel has it.
struct Action {
  union {
    void (*plain)(int);
    void (*full)(int, siginfo_t*, void*);  // with SA_SIGINFO
  };
  unsigned long flags;
  void (*restorer)() noexcept;
  uint64_t mask;  // a bit a signal, the first one is bit 0
};

// The last argument is the size of the kernel's mask (rt_sigaction(2)).
int kernel_sigaction(int sig, const Action* act, Action* old) noexcept {
  return static_cast<int>(syscall(SYS_rt_sigaction, sig, act, old, sizeof(uint64_t)));
}

// What lies behind our handler for one signal. An action once published is never changed or freed:
// a handler may be reading it.
struct Chain {
  std::atomic<const Action*> bottom{nullptr};  // what was there when we came first
  std::atomic<const Action*> next{nullptr};    // who gets what is not ours
};
Chain chains[2];
pthread_mutex_t chain_lock = PTHREAD_MUTEX_INITIALIZER;

Chain& chain_of(int sig) noexcept {
  return chains[sig == SIGBUS ? 1 : 0];
}

// A handler that came after us and calls "the one before", which is us: without a mark the two
// would call each other for ever. One place a thread, by its number.
struct Mark {
  std::atomic<pid_t> thread{0};               // who is in the next handler; 0: nobody
  std::atomic<uintptr_t> frame{0};            // how deep its stack was when we called that
  std::atomic<const void*> context{nullptr};  // of the signal that we passed on
};
Mark marks[64];

// The next handler has called us with the signal that it got from us: deeper in the stack, and with
// the same context or with a signal that was sent. A handler that left by longjmp() is shallower.
bool called_back(const Mark& m, pid_t me, const siginfo_t* info, const void* context) noexcept {
  if (m.thread.load(std::memory_order_relaxed) != me) return false;
  auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return frame < m.frame.load(std::memory_order_relaxed) &&
         (m.context.load(std::memory_order_relaxed) == context || info->si_code <= 0);
}

// The kernel's default: the process ends with this signal. A fault repeats by itself when the
// handler returns, a signal that was sent is sent again.
void end_as_default(int sig, const siginfo_t* info) noexcept {
  Action dfl{};
  dfl.plain = SIG_DFL;
  kernel_sigaction(sig, &dfl, nullptr);
  if (info->si_code <= 0) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
}

// Calls a handler as the kernel would: with the signals blocked that its sigaction() names. A fault
// cannot be ignored (sigaction(2)).
void call(const Action& a, int sig, siginfo_t* info, void* context) noexcept {
  if (a.plain == SIG_DFL || (a.plain == SIG_IGN && info->si_code > 0)) {
    return end_as_default(sig, info);
  }
  if (a.plain == SIG_IGN) return;
  uint64_t block = a.mask;
  if ((a.flags & SA_NODEFER) == 0) block |= uint64_t{1} << (sig - 1);
  uint64_t before = 0;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &block, &before, sizeof(block));
  if ((a.flags & SA_SIGINFO) != 0) {
    a.full(sig, info, context);
  } else {
    a.plain(sig);
  }
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
}

// A signal that is none of ours goes to who was there before, or to the first of all if the one
// before calls back.
void pass_on(int sig, siginfo_t* info, void* context) noexcept {
  int saved_errno = errno;
  auto me = static_cast<pid_t>(syscall(SYS_gettid));
  Mark& m = marks[static_cast<unsigned>(me) % 64];
  Chain& chain = chain_of(sig);
  if (called_back(m, me, info, context)) {
    call(*chain.bottom.load(std::memory_order_acquire), sig, info, context);
  } else {
    m.thread.store(me, std::memory_order_relaxed);
    m.frame.store(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)),
                  std::memory_order_relaxed);
    m.context.store(context, std::memory_order_relaxed);
    call(*chain.next.load(std::memory_order_acquire), sig, info, context);
    m.thread.store(0, std::memory_order_relaxed);
  }
  errno = saved_errno;
}

// A field of the table holds a distance from itself, so that the table needs no relocation.
uintptr_t named_by(const int32_t& field) noexcept {
  return reinterpret_cast<uintptr_t>(&field) + static_cast<uintptr_t>(intptr_t{field});
}

// The address at which a guarded move goes on whose instruction at `at` faulted; 0: no guarded move
// is there.
uintptr_t after_fault(uintptr_t at) noexcept {
  if (at >= reinterpret_cast<uintptr_t>(kilim_dma_begin) &&
      at < reinterpret_cast<uintptr_t>(kilim_dma_end))
    return reinterpret_cast<uintptr_t>(kilim_dma_fault);
  for (const Site* s = sites_begin; s != sites_end; s++) {
    if (at >= named_by(s->begin) && at < named_by(s->end)) return named_by(s->go_on);
  }
  return 0;
}

void on_signal(int sig, siginfo_t* info, void* context) noexcept {
  auto* uc = static_cast<ucontext_t*>(context);
  const auto at = static_cast<uintptr_t>(uc->uc_mcontext.gregs[REG_RIP]);
  // si_code > 0: the kernel raised it for the instruction at `at`; else somebody has sent it.
  const uintptr_t go_on = info->si_code > 0 ? after_fault(at) : 0;
  if (go_on != 0) {
    uc->uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(go_on);
    return;
  }
  pass_on(sig, info, context);
}

// A lasting copy; one that is there already is used again, so that a process which keeps putting
// its handler back costs nothing.
const Action* keep(const Action& a) noexcept {
  struct Kept {
    Action action;
    Kept* before;
  };
  static Kept* kept = nullptr;
  for (Kept* k = kept; k != nullptr; k = k->before) {
    if (std::memcmp(&k->action, &a, sizeof(a)) == 0) return &k->action;
  }
  kept = new Kept{a, kept};
  return &kept->action;
}

// With the lock. 1: put in front, 0: was there, -1: refused.
int put_in_front(int sig) noexcept {
  Action now{};
  if (kernel_sigaction(sig, nullptr, &now) != 0) return -1;
  if (now.full == on_signal) return 0;
  Chain& chain = chain_of(sig);
  const Action* theirs = keep(now);
  if (chain.bottom.load(std::memory_order_relaxed) == nullptr) {
    chain.bottom.store(theirs, std::memory_order_release);
  }
  chain.next.store(theirs, std::memory_order_release);
  Action ours{};
  ours.full = on_signal;
  // NODEFER: a handler that we call may meet a fault of its own; its mask is applied in call().
  ours.flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | restorer_flag;
  ours.restorer = kilim_dma_restorer;
  return kernel_sigaction(sig, &ours, nullptr) == 0 ? 1 : -1;
}

}  // namespace

bool install() noexcept {
  pthread_mutex_lock(&chain_lock);
  bool ok = put_in_front(SIGSEGV) >= 0 && put_in_front(SIGBUS) >= 0;
  pthread_mutex_unlock(&chain_lock);
  return ok;
}

bool check_on_top() noexcept {
  pthread_mutex_lock(&chain_lock);
  bool replaced = put_in_front(SIGSEGV) > 0;
  replaced = put_in_front(SIGBUS) > 0 || replaced;
  pthread_mutex_unlock(&chain_lock);
  return replaced;
}

int client_sigaction(int sig, const struct sigaction* act, struct sigaction* old) noexcept {
  if (sig != SIGSEGV && sig != SIGBUS) {
    errno = EINVAL;
    return -1;
  }
  if (!install()) return -1;
  pthread_mutex_lock(&chain_lock);
  Chain& chain = chain_of(sig);
  // The client sees its own handlers only, as if ours were not there.
  const Action before = *chain.next.load(std::memory_order_relaxed);
  if (act != nullptr) {
    Action a{};
    a.full = act->sa_sigaction;
    a.flags = static_cast<unsigned long>(act->sa_flags);
    // glibc's sigset_t begins with the kernel's 64 bits.
    std::memcpy(&a.mask, &act->sa_mask, sizeof(a.mask));
    chain.next.store(keep(a), std::memory_order_release);
  }
  pthread_mutex_unlock(&chain_lock);
  if (old != nullptr) {
    std::memset(old, 0, sizeof(*old));
    old->sa_sigaction = before.full;
    old->sa_flags = static_cast<int>(before.flags & ~restorer_flag);
    std::memcpy(&old->sa_mask, &before.mask, sizeof(before.mask));
  }
  return 0;
}

bool signals_open() noexcept {
  sigset_t blocked;
  sigemptyset(&blocked);
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, SIGSEGV) == 0 && sigismember(&blocked, SIGBUS) == 0;
}

void before_fork() noexcept {
  pthread_mutex_lock(&chain_lock);
}
void after_fork_in_parent() noexcept {
  pthread_mutex_unlock(&chain_lock);
}
// The child's one thread is not the owner that the mutex knows: it begins anew.
void after_fork_in_child() noexcept {
  pthread_mutex_init(&chain_lock, nullptr);
}

}  // namespace kilim::vhca::memory::dma
