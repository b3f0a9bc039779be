// SPDX-License-Identifier: BSD-3-Clause
#include "failing_calls.hh"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

std::atomic<int> kind_now{kilim_no_failing};
std::atomic<unsigned long> calls{0};
std::atomic<unsigned long> failing{0};
std::atomic<unsigned long> failing_times{1};
std::atomic<bool> failed{false};
char report_to[256];  // a file that gets a line; empty: none

// A part of the code whose calls count.
struct Code {
  uintptr_t begin, end;
};
constexpr std::size_t most_code = 32;
Code code[most_code];
std::size_t code_count = 0;

bool is_ours(const char* path) {
  if (path[0] == '\0') return true;  // the program
  const char* name = std::strrchr(path, '/');
  name = name == nullptr ? path : name + 1;
  if (std::strstr(name, "kilim_failing") != nullptr) return false;
  return std::strstr(name, "kilim") != nullptr || std::strncmp(name, "libstdc++", 9) == 0;
}

int add_code(dl_phdr_info* info, std::size_t, void*) {
  if (!is_ours(info->dlpi_name)) return 0;
  for (int i = 0; i < info->dlpi_phnum && code_count < most_code; i++) {
    const auto& p = info->dlpi_phdr[i];
    if (p.p_type != PT_LOAD || (p.p_flags & PF_X) == 0) continue;
    const uintptr_t at = info->dlpi_addr + p.p_vaddr;
    code[code_count++] = {at, at + p.p_memsz};
  }
  return 0;
}

bool counts(const void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  for (std::size_t i = 0; i < code_count; i++)
    if (at >= code[i].begin && at < code[i].end) return true;
  return false;
}

// What stands behind the program's name helps addr2line.
void report(const void* caller) {
  if (report_to[0] == '\0') return;
  Dl_info info{};
  const bool known = ::dladdr(caller, &info) != 0;
  const auto offset = reinterpret_cast<uintptr_t>(caller) -
                      (known ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0);
  char line[512];
  const int n = std::snprintf(line, sizeof line, "%s+0x%lx\n", known ? info.dli_fname : "?",
                              static_cast<unsigned long>(offset));
  const long fd = ::syscall(SYS_openat, AT_FDCWD, report_to, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0) return;
  (void)::syscall(SYS_write, fd, line, n);
  (void)::syscall(SYS_close, fd);
}

// Whether this call is the one. errno is set then.
bool fails(int kind, int error, const void* caller) {
  if (kind_now.load(std::memory_order_relaxed) != kind || !counts(caller)) return false;
  const unsigned long n = calls.fetch_add(1) + 1;
  if (n - failing.load() >= failing_times.load()) return false;
  if (!failed.exchange(true)) report(caller);
  errno = error;
  return true;
}

template <typename F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

struct Kind {
  int kind, error;
};
Kind kind_of(long number) {
  switch (number) {
    case SYS_mmap:
    case SYS_mremap:
    case SYS_mlock:
      return {kilim_failing_map, ENOMEM};
    case SYS_open:
    case SYS_openat:
    case SYS_memfd_create:
    case SYS_userfaultfd:
    case SYS_dup:
    case SYS_dup3:
    case SYS_eventfd2:
      return {kilim_failing_open, EMFILE};
    case SYS_write:
    case SYS_pwrite64:
    case SYS_ftruncate:
    case SYS_fallocate:
      return {kilim_failing_space, ENOSPC};
    default:
      return {kilim_no_failing, 0};
  }
}

__attribute__((constructor)) void read_environment() {
  ::dl_iterate_phdr(&add_code, nullptr);
  if (const char* to = std::getenv("KILIM_FAIL_REPORT"))
    std::snprintf(report_to, sizeof report_to, "%s", to);
  static constexpr const char* names[] = {"", "memory", "map", "open", "space", "short"};
  char kind[16];
  unsigned long n = 0, times = 1;
  const char* words = std::getenv("KILIM_FAIL");
  if (words == nullptr || std::sscanf(words, "%15[a-z]:%lux%lu", kind, &n, &times) < 2) return;
  for (int i = kilim_failing_memory; i <= kilim_short; i++)
    if (std::strcmp(kind, names[i]) == 0) kilim_fail(i, n, times);
}

}  // namespace

#define KILIM_CALLER __builtin_return_address(0)
// One that has only to be passed on: its name, what it returns, what fails, and with what.
#define KILIM_PASSES(result, name, kind, error, bad, parameters, arguments) \
  result name parameters {                                                  \
    static result(*const real) parameters = next<result parameters>(#name); \
    return fails(kind, error, KILIM_CALLER) ? (bad) : real arguments;       \
  }

extern "C" {

unsigned long kilim_fail(int kind, unsigned long n, unsigned long times) {
  kind_now.store(kilim_no_failing);
  const unsigned long before = calls.exchange(0);
  failed.store(false);
  failing.store(n);
  failing_times.store(times);
  kind_now.store(kind);
  return before;
}

int kilim_has_failed() {
  return failed.load() ? 1 : 0;
}

// Memory. dlsym() itself allocates, so these do not ask it.
void* malloc(std::size_t n) {
  return fails(kilim_failing_memory, ENOMEM, KILIM_CALLER) ? nullptr : __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) {
  return fails(kilim_failing_memory, ENOMEM, KILIM_CALLER) ? nullptr : __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t n) {
  return fails(kilim_failing_memory, ENOMEM, KILIM_CALLER) ? nullptr : __libc_realloc(p, n);
}
void* aligned_alloc(std::size_t align, std::size_t n) {
  return fails(kilim_failing_memory, ENOMEM, KILIM_CALLER) ? nullptr : __libc_memalign(align, n);
}
int posix_memalign(void** to, std::size_t align, std::size_t n) {
  const int errno_before = errno;
  void* p = fails(kilim_failing_memory, ENOMEM, KILIM_CALLER) ? nullptr : __libc_memalign(align, n);
  errno = errno_before;
  if (p == nullptr) return ENOMEM;
  *to = p;
  return 0;
}

// Address space.
void* mmap(void* at, std::size_t n, int prot, int flags, int fd, off_t from) {
  if (fails(kilim_failing_map, ENOMEM, KILIM_CALLER)) return MAP_FAILED;
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, n, prot, flags, fd, from));
}
void* mmap64(void* at, std::size_t n, int prot, int flags, int fd, off_t from) {
  if (fails(kilim_failing_map, ENOMEM, KILIM_CALLER)) return MAP_FAILED;
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, n, prot, flags, fd, from));
}
KILIM_PASSES(int, mlock, kilim_failing_map, ENOMEM, -1, (const void* at, std::size_t n), (at, n))

// Descriptors.
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = va_arg(rest, unsigned);
  va_end(rest);
  static int (*const real)(const char*, int, ...) = next<int(const char*, int, ...)>("open");
  if (fails(kilim_failing_open, EMFILE, KILIM_CALLER)) return -1;
  return real(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = va_arg(rest, unsigned);
  va_end(rest);
  static int (*const real)(const char*, int, ...) = next<int(const char*, int, ...)>("open64");
  if (fails(kilim_failing_open, EMFILE, KILIM_CALLER)) return -1;
  return real(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = va_arg(rest, unsigned);
  va_end(rest);
  static int (*const real)(int, const char*, int, ...) =
      next<int(int, const char*, int, ...)>("openat");
  if (fails(kilim_failing_open, EMFILE, KILIM_CALLER)) return -1;
  return real(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = va_arg(rest, unsigned);
  va_end(rest);
  static int (*const real)(int, const char*, int, ...) =
      next<int(int, const char*, int, ...)>("openat64");
  if (fails(kilim_failing_open, EMFILE, KILIM_CALLER)) return -1;
  return real(folder, path, flags, mode);
}
KILIM_PASSES(int, socket, kilim_failing_open, EMFILE, -1, (int a, int b, int c), (a, b, c))
KILIM_PASSES(int, socketpair, kilim_failing_open, EMFILE, -1, (int a, int b, int c, int d[2]),
             (a, b, c, d))
KILIM_PASSES(int, eventfd, kilim_failing_open, EMFILE, -1, (unsigned a, int b), (a, b))
KILIM_PASSES(int, epoll_create, kilim_failing_open, EMFILE, -1, (int a), (a))
KILIM_PASSES(int, epoll_create1, kilim_failing_open, EMFILE, -1, (int a), (a))
KILIM_PASSES(int, timerfd_create, kilim_failing_open, EMFILE, -1, (int a, int b), (a, b))
KILIM_PASSES(int, memfd_create, kilim_failing_open, EMFILE, -1, (const char* a, unsigned b), (a, b))
KILIM_PASSES(int, inotify_init1, kilim_failing_open, EMFILE, -1, (int a), (a))
KILIM_PASSES(int, signalfd, kilim_failing_open, EMFILE, -1, (int a, const void* b, int c),
             (a, b, c))
KILIM_PASSES(int, shm_open, kilim_failing_open, EMFILE, -1, (const char* a, int b, mode_t c),
             (a, b, c))
KILIM_PASSES(int, dup, kilim_failing_open, EMFILE, -1, (int a), (a))
KILIM_PASSES(int, dup2, kilim_failing_open, EMFILE, -1, (int a, int b), (a, b))
KILIM_PASSES(int, dup3, kilim_failing_open, EMFILE, -1, (int a, int b, int c), (a, b, c))
KILIM_PASSES(int, pipe, kilim_failing_open, EMFILE, -1, (int a[2]), (a))
KILIM_PASSES(int, pipe2, kilim_failing_open, EMFILE, -1, (int a[2], int b), (a, b))
KILIM_PASSES(FILE*, fopen, kilim_failing_open, EMFILE, nullptr, (const char* a, const char* b),
             (a, b))
KILIM_PASSES(FILE*, fopen64, kilim_failing_open, EMFILE, nullptr, (const char* a, const char* b),
             (a, b))
KILIM_PASSES(DIR*, opendir, kilim_failing_open, EMFILE, nullptr, (const char* a), (a))
int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* const word = va_arg(rest, void*);
  va_end(rest);
  static int (*const real)(int, int, ...) = next<int(int, int, ...)>("fcntl");
  const bool opens = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (opens && fails(kilim_failing_open, EMFILE, KILIM_CALLER)) return -1;
  return real(fd, command, word);
}
int fcntl64(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* const word = va_arg(rest, void*);
  va_end(rest);
  static int (*const real)(int, int, ...) = next<int(int, int, ...)>("fcntl64");
  const bool opens = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (opens && fails(kilim_failing_open, EMFILE, KILIM_CALLER)) return -1;
  return real(fd, command, word);
}

// A thread wants a stack.
int pthread_create(pthread_t* a, const pthread_attr_t* b, void* (*c)(void*), void* d) {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static Create* const real = next<Create>("pthread_create");
  return fails(kilim_failing_map, EAGAIN, KILIM_CALLER) ? EAGAIN : real(a, b, c, d);
}

// What does not go by the C library's own functions.
long syscall(long number, ...) {
  long word[6];
  va_list rest;
  va_start(rest, number);
  for (long& w : word) w = va_arg(rest, long);
  va_end(rest);
  static long (*const real)(long, ...) = next<long(long, ...)>("syscall");
  const Kind kind = kind_of(number);
  if (kind.kind != kilim_no_failing && fails(kind.kind, kind.error, KILIM_CALLER)) return -1;
  return real(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}

// Room, and calls that do half of what was asked for.
#define KILIM_SHORTENS(n) \
  if ((n) > 1 && fails(kilim_short, errno, KILIM_CALLER)) (n) /= 2

ssize_t read(int fd, void* to, std::size_t n) {
  static ssize_t (*const real)(int, void*, std::size_t) =
      next<ssize_t(int, void*, std::size_t)>("read");
  KILIM_SHORTENS(n);
  return real(fd, to, n);
}
ssize_t write(int fd, const void* from, std::size_t n) {
  static ssize_t (*const real)(int, const void*, std::size_t) =
      next<ssize_t(int, const void*, std::size_t)>("write");
  if (fails(kilim_failing_space, ENOSPC, KILIM_CALLER)) return -1;
  KILIM_SHORTENS(n);
  return real(fd, from, n);
}
ssize_t pread(int fd, void* to, std::size_t n, off_t at) {
  static auto* const real = next<ssize_t(int, void*, std::size_t, off_t)>("pread");
  KILIM_SHORTENS(n);
  return real(fd, to, n, at);
}
ssize_t pread64(int fd, void* to, std::size_t n, off_t at) {
  static auto* const real = next<ssize_t(int, void*, std::size_t, off_t)>("pread64");
  KILIM_SHORTENS(n);
  return real(fd, to, n, at);
}
ssize_t pwrite(int fd, const void* from, std::size_t n, off_t at) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  if (fails(kilim_failing_space, ENOSPC, KILIM_CALLER)) return -1;
  KILIM_SHORTENS(n);
  return real(fd, from, n, at);
}
ssize_t pwrite64(int fd, const void* from, std::size_t n, off_t at) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite64");
  if (fails(kilim_failing_space, ENOSPC, KILIM_CALLER)) return -1;
  KILIM_SHORTENS(n);
  return real(fd, from, n, at);
}
KILIM_PASSES(ssize_t, writev, kilim_failing_space, ENOSPC, -1, (int a, const iovec* b, int c),
             (a, b, c))
KILIM_PASSES(int, fallocate, kilim_failing_space, ENOSPC, -1, (int a, int b, off_t c, off_t d),
             (a, b, c, d))
KILIM_PASSES(int, fallocate64, kilim_failing_space, ENOSPC, -1, (int a, int b, off_t c, off_t d),
             (a, b, c, d))
KILIM_PASSES(int, posix_fallocate, kilim_failing_space, ENOSPC, ENOSPC, (int a, off_t b, off_t c),
             (a, b, c))
KILIM_PASSES(int, posix_fallocate64, kilim_failing_space, ENOSPC, ENOSPC, (int a, off_t b, off_t c),
             (a, b, c))
KILIM_PASSES(int, ftruncate, kilim_failing_space, ENOSPC, -1, (int a, off_t b), (a, b))
KILIM_PASSES(int, ftruncate64, kilim_failing_space, ENOSPC, -1, (int a, off_t b), (a, b))
KILIM_PASSES(int, mkdir, kilim_failing_space, ENOSPC, -1, (const char* a, mode_t b), (a, b))
KILIM_PASSES(int, mkdirat, kilim_failing_space, ENOSPC, -1, (int a, const char* b, mode_t c),
             (a, b, c))
KILIM_PASSES(char*, mkdtemp, kilim_failing_space, ENOSPC, nullptr, (char* a), (a))
KILIM_PASSES(int, symlink, kilim_failing_space, ENOSPC, -1, (const char* a, const char* b), (a, b))
KILIM_PASSES(int, fflush, kilim_failing_space, ENOSPC, EOF, (FILE * a), (a))
KILIM_PASSES(int, fclose, kilim_failing_space, ENOSPC, EOF, (FILE * a), (a))
}
