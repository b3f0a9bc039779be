// SPDX-License-Identifier: BSD-3-Clause
// The reader thread takes the page lock, then reads: when the client's call returns, the tables
// know. Ranges are registered in write-protect mode, which reports and causes no faults.
#include "vhca/tpt/page_events.hh"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <iterator>

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vhca/memory/valgrind.hh"
#include "vhca/tpt/memory_map.hh"

namespace kilim::vhca::tpt {

pthread_mutex_t PageLock::mutex = PTHREAD_MUTEX_INITIALIZER;

namespace page_events {

namespace {

constexpr int user_mode_only = 1;  // UFFD_USER_MODE_ONLY
constexpr uint64_t events =
    UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP;
constexpr uint64_t wanted =
    events | UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
constexpr std::size_t stack_bytes = 64 << 10;

// The list: under the page lock.
WatchedRange* first = nullptr;
std::atomic<uint32_t> listed{0};

// Made by the first add(), one at a time by `start_lock`.
pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
bool started = false;
std::atomic<int> descriptor{-1};
std::atomic<bool> reading{false};  // the thread has its descriptor

int control(int fd, unsigned long request, void* argument) noexcept {
  return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
}

// Mappings that are watched, so that a fault in one of them asks nobody. Under the page lock. What
// has been unmapped or moved is taken out; where there is no room, a later fault asks again.
PageRange known[64];
std::size_t next_known = 0;

bool find_known(uint64_t va, PageRange& out) noexcept {
  for (const PageRange& k : known) {
    if (va < k.start || va >= k.end) continue;
    out = k;
    return true;
  }
  return false;
}

void forget_known(const PageRange& gone) noexcept {
  for (PageRange& k : known) {
    if (k.meets(gone)) k = {};
  }
}

// An event that comes between the two steps takes the mapping out again, or finds it not yet in:
// then its range is told as gone, and the fault under way starts over.
bool watch_mapping(int fd, const PageRange& mapping) noexcept {
  uffdio_register reg{};
  reg.range = {mapping.start, mapping.end - mapping.start};
  reg.mode = UFFDIO_REGISTER_MODE_WP;
  const PageLock lock;
  if (control(fd, UFFDIO_REGISTER, &reg) != 0) return false;
  known[next_known++ % std::size(known)] = mapping;
  return true;
}

// Under the page lock.
void tell(const PageRange& gone) noexcept {
  for (WatchedRange* w = first; w != nullptr; w = w->next) {
    if (w->watched.meets(gone)) w->invalidated(gone.within(w->watched));
  }
}

void take(const uffd_msg& m) noexcept {
  switch (m.event) {
    case UFFD_EVENT_REMAP:
      if (m.arg.remap.len == 0) break;  // a second mapping of shared memory: nothing moved
      forget_known(PageRange::of(m.arg.remap.from, m.arg.remap.len));
      tell(PageRange::of(m.arg.remap.from, m.arg.remap.len));
      tell(PageRange::of(m.arg.remap.to, m.arg.remap.len));
      break;
    case UFFD_EVENT_UNMAP:
      forget_known({m.arg.remove.start, m.arg.remove.end});
      [[fallthrough]];
    case UFFD_EVENT_REMOVE:
      tell({m.arg.remove.start, m.arg.remove.end});
      break;
    default:
      break;
  }
}

// A table of descriptors of this thread's own, with one in it. A client that closes numbers which
// are not its own (a daemon does) may have them lead elsewhere next: to poll there would not end,
// to read would take another's bytes, under the page lock. A sanitizer's report about this thread
// needs its option log_path. Linux 5.8 and before: the client's table stays.
void keep_alone(int fd) noexcept {
  const auto number = static_cast<unsigned>(fd);
  if (::syscall(SYS_close_range, number + 1, ~0u, CLOSE_RANGE_UNSHARE) != 0) return;
  if (number > 0) ::syscall(SYS_close_range, 0u, number - 1, 0u);
}

// A number of the client's may lead elsewhere by now.
bool is_userfaultfd(int fd) noexcept {
  uffdio_api again{};
  again.api = UFFD_API;
  return control(fd, UFFDIO_API, &again) == 0 || (errno != ENOTTY && errno != EBADF);
}

// A thread's whole life: it waits until the next event comes, and ends with the descriptor.
void* read_events(void*) noexcept {
  const int fd = descriptor.load(std::memory_order_acquire);
  keep_alone(fd);
  reading.store(true, std::memory_order_release);
  reading.notify_one();
  for (;;) {
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, -1) < 0 && errno != EINTR) return nullptr;
    uffd_msg messages[8];
    const PageLock lock;
    // Not read(2)'s wrapper: ThreadSanitizer takes the number for the client's.
    const auto n = static_cast<ssize_t>(::syscall(SYS_read, fd, messages, sizeof(messages)));
    for (ssize_t i = 0; n > 0 && i < n / static_cast<ssize_t>(sizeof(uffd_msg)); i++)
      take(messages[i]);
  }
}

int open_descriptor() noexcept {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  int fd = static_cast<int>(::syscall(SYS_userfaultfd, flags | user_mode_only));
  if (fd >= 0) return fd;
  const int device =
      static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/dev/userfaultfd", O_RDWR | O_CLOEXEC, 0));
  if (device < 0) return -1;
  fd = control(device, USERFAULTFD_IOC_NEW, reinterpret_cast<void*>(intptr_t{flags}));
  ::syscall(SYS_close, device);
  return fd;
}

bool start_thread() noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, stack_bytes);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool ok = pthread_create(&thread, &attr, &read_events, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attr);
  if (!ok) return false;
  pthread_setname_np(thread, "kilim-pages");
  reading.wait(false, std::memory_order_acquire);
  return true;
}

// Null, or what is missing.
const char* start() noexcept {
  if (memory::under_valgrind()) return "one thread runs at a time here";
  const int fd = open_descriptor();
  if (fd < 0) return "userfaultfd is refused";
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = wanted;
  const char* why = nullptr;
  descriptor.store(fd, std::memory_order_release);
  if (control(fd, UFFDIO_API, &api) != 0 || (api.features & wanted) != wanted)
    why = "the kernel's userfaultfd reports no events of shared memory";
  else if (!start_thread())
    why = "there is no room for a thread";
  if (why == nullptr) return nullptr;
  descriptor.store(-1, std::memory_order_relaxed);
  ::syscall(SYS_close, fd);
  return why;
}

}  // namespace

void add(WatchedRange& w) {
  pthread_mutex_lock(&start_lock);
  if (!started) {
    started = true;
    if (const char* why = start(); why != nullptr)
      std::fprintf(stderr,
                   "kilim-vhca: %s: the adapter learns of unmapped memory by the calls of the "
                   "program alone\n",
                   why);
  }
  pthread_mutex_unlock(&start_lock);
  const PageLock lock;
  w.next = first;
  w.prev = nullptr;
  if (first != nullptr) first->prev = &w;
  first = &w;
  listed.fetch_add(1, std::memory_order_release);
}

void remove(WatchedRange& w) noexcept {
  const PageLock lock;
  if (w.prev == nullptr && first != &w) return;  // forgotten by a fork
  (w.prev != nullptr ? w.prev->next : first) = w.next;
  if (w.next != nullptr) w.next->prev = w.prev;
  listed.fetch_sub(1, std::memory_order_release);
}

bool watch(const PageRange& r) noexcept {
  const int fd = descriptor.load(std::memory_order_acquire);
  if (fd < 0) return false;
  const int saved = errno;
  bool all = true;
  for (PageRange left = r; !left.empty();) {
    PageRange around;
    {
      const PageLock lock;
      if (find_known(left.start, around)) {
        left.start = around.end;
        continue;
      }
    }
    if (!find_mapping(left.start, around) || around.start >= left.end) break;
    all = watch_mapping(fd, around) && all;
    left.start = around.end;
  }
  errno = saved;
  return all;
}

void invalidate(const PageRange& r) noexcept {
  if (r.empty()) return;
  const PageLock lock;
  tell(r);
}

bool anybody() noexcept {
  return listed.load(std::memory_order_acquire) != 0;
}

void before_fork() noexcept {
  const PageLock lock;
  for (WatchedRange* w = first; w != nullptr; w = w->next) {
    if (!w->pinned) w->invalidated(w->watched);
  }
}

// Neither the thread nor the registrations are here; the regions are the parent's.
void after_fork_in_child() noexcept {
  PageLock::reset_after_fork();
  pthread_mutex_init(&start_lock, nullptr);
  const int fd = descriptor.exchange(-1, std::memory_order_relaxed);
  if (fd >= 0 && is_userfaultfd(fd)) ::syscall(SYS_close, fd);
  reading.store(false, std::memory_order_relaxed);
  first = nullptr;
  for (PageRange& k : known) k = {};
  listed.store(0, std::memory_order_relaxed);
  started = false;
}

}  // namespace page_events

}  // namespace kilim::vhca::tpt
