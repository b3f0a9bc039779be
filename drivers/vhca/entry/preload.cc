// SPDX-License-Identifier: BSD-3-Clause
// libkilim-vhca.so, the way in for programs that know nothing of Kilim: the launcher has it loaded
// before the program's libraries and behind what others have loaded so, and the names below take
// the place of libc's and libibverbs's. What is not a device's goes on to whoever stands behind.
// Does nothing but that until a path of a virtual device is met. Any thread.

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "vhca/entry/calls.hh"
#include "vhca/entry/device_list.hh"
#include "vhca/entry/launched.hh"
#include "vhca/entry/next.hh"
#include "vhca/entry/open_files.hh"
#include "vhca/entry/poll_hook.hh"
#include "vhca/entry/raw.hh"
#include "vhca/memory/dma_guard.hh"

// Interposed functions are the only visible ones.
#define KILIM_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace kilim::vhca {
namespace {

void add_launched_devices() {
  const LaunchConfig config = find_in_environment();
  if (config.tree.empty()) return;
  for (uint32_t k = 0; k < config.devices; k++) {
    if (!device_list::add(config.device(k)).ok()) return;
  }
}

void check_environment_once() noexcept {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, &add_launched_devices);
}

// The first of these paths makes the devices known; nothing before it costs more than a comparison.
const char* noticed(const char* path) noexcept {
  if (path != nullptr && std::strncmp(path, "/dev/infiniband/", 16) == 0) {
    check_environment_once();
  }
  return path;
}

mode_t mode_argument(int flags, va_list arguments) noexcept {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

// The function that would have been called without us. A library that was loaded privately (an
// extension of an interpreter) is not among "the next ones".
template <typename F>
F* next_by_name(F*, const char* name, const char* library) noexcept {
  void* symbol = ::dlsym(RTLD_NEXT, name);
  if (symbol == nullptr && library != nullptr) {
    if (void* loaded = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD); loaded != nullptr) {
      symbol = ::dlsym(loaded, name);
    }
  }
  return reinterpret_cast<F*>(symbol);
}

template <SymbolName name>
int open_by(const char* path, int flags, mode_t mode) noexcept {
  if (const auto ours = calls::open(noticed(path), flags)) return *ours;
  return pass_on<name, OpenCall>(raw::open, path, flags, mode);
}
template <SymbolName name>
int open_at_by(int dir, const char* path, int flags, mode_t mode) noexcept {
  if (const auto ours = calls::open(noticed(path), flags)) return *ours;
  return pass_on<name, OpenAtCall>(raw::open_at, dir, path, flags, mode);
}
template <SymbolName name>
int checked_open_by(const char* path, int flags) noexcept {
  if (const auto ours = calls::open(noticed(path), flags)) return *ours;
  const auto kernel = [](const char* p, int f) { return raw::open(p, f, 0); };
  return pass_on<name, CheckedOpenCall>(kernel, path, flags);
}
template <SymbolName name>
int checked_open_at_by(int dir, const char* path, int flags) noexcept {
  if (const auto ours = calls::open(noticed(path), flags)) return *ours;
  const auto kernel = [](int d, const char* p, int f) { return raw::open_at(d, p, f, 0); };
  return pass_on<name, CheckedOpenAtCall>(kernel, dir, path, flags);
}
template <SymbolName name>
int stat_by(const char* path, struct stat* st, int flags) noexcept {
  if (const auto ours = calls::stat(noticed(path), st)) return *ours;
  const auto kernel = [flags](const char* p, struct stat* s) {
    return raw::stat_at(AT_FDCWD, p, s, flags);
  };
  return pass_on<name, StatCall>(kernel, path, st);
}
// An empty path names `dir` itself.
template <SymbolName name>
int stat_at_by(int dir, const char* path, struct stat* st, int flags) noexcept {
  if ((flags & AT_EMPTY_PATH) != 0 && *path == '\0' && dir >= 0 && open_files::count() != 0)
    return calls::file_stat(dir, st);
  if (const auto ours = calls::stat(noticed(path), st)) return *ours;
  return pass_on<name, StatAtCall>(raw::stat_at, dir, path, st, flags);
}
template <SymbolName name>
int versioned_stat_by(int version, const char* path, struct stat* st, int flags) noexcept {
  if (const auto ours = calls::stat(noticed(path), st)) return *ours;
  const auto kernel = [flags](int, const char* p, struct stat* s) {
    return raw::stat_at(AT_FDCWD, p, s, flags);
  };
  return pass_on<name, VersionedStatCall>(kernel, version, path, st);
}
template <SymbolName name>
int versioned_file_stat_by(int version, int fd, struct stat* st) noexcept {
  const int result = pass_on<name, VersionedFileStatCall>(
      [](int, int f, struct stat* s) { return raw::file_stat(f, s); }, version, fd, st);
  return result == 0 && open_files::count() != 0 ? calls::file_stat(fd, st) : result;
}

bool device_is_open() noexcept {
  for (std::size_t i = 0; i < device_list::count(); i++) {
    if (device_list::at(i)->live() != nullptr) return true;
  }
  return false;
}

void* find_device(const char* name) {
  check_environment_once();
  Device* device = device_list::find_name(name);
  return device != nullptr && device->instance().ok() ? device : nullptr;
}

std::size_t poll_device(void* device, std::size_t budget) {
  Instance* instance = static_cast<Device*>(device)->live();
  return instance == nullptr ? 0 : instance->poll(budget);
}

}  // namespace
}  // namespace kilim::vhca

using namespace kilim::vhca;

KILIM_INTERPOSED const KilimVhcaLaunched* kilim_vhca_launched() {
  static constexpr KilimVhcaLaunched table{1, &find_device, &poll_device};
  check_environment_once();
  return device_list::count() == 0 ? nullptr : &table;
}

// Paths.

KILIM_INTERPOSED int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return open_by<"open">(path, flags, mode);
}
KILIM_INTERPOSED int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return open_by<"open64">(path, flags, mode);
}
KILIM_INTERPOSED int openat(int dir, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return open_at_by<"openat">(dir, path, flags, mode);
}
KILIM_INTERPOSED int openat64(int dir, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return open_at_by<"openat64">(dir, path, flags, mode);
}
KILIM_INTERPOSED int __open_2(const char* path, int flags) {
  return checked_open_by<"__open_2">(path, flags);
}
KILIM_INTERPOSED int __open64_2(const char* path, int flags) {
  return checked_open_by<"__open64_2">(path, flags);
}
KILIM_INTERPOSED int __openat_2(int dir, const char* path, int flags) {
  return checked_open_at_by<"__openat_2">(dir, path, flags);
}
KILIM_INTERPOSED int __openat64_2(int dir, const char* path, int flags) {
  return checked_open_at_by<"__openat64_2">(dir, path, flags);
}

// struct stat and struct stat64 are one on 64-bit machines.

KILIM_INTERPOSED int stat(const char* path, struct stat* st) {
  return stat_by<"stat">(path, st, 0);
}
KILIM_INTERPOSED int lstat(const char* path, struct stat* st) {
  return stat_by<"lstat">(path, st, AT_SYMLINK_NOFOLLOW);
}
KILIM_INTERPOSED int fstat(int fd, struct stat* st) {
  return calls::file_stat(fd, st, Next<"fstat", FileStatCall>::get());
}
KILIM_INTERPOSED int fstatat(int dir, const char* path, struct stat* st, int flags) {
  return stat_at_by<"fstatat">(dir, path, st, flags);
}
KILIM_INTERPOSED int stat64(const char* path, struct stat64* st) {
  return stat_by<"stat64">(path, reinterpret_cast<struct stat*>(st), 0);
}
KILIM_INTERPOSED int lstat64(const char* path, struct stat64* st) {
  return stat_by<"lstat64">(path, reinterpret_cast<struct stat*>(st), AT_SYMLINK_NOFOLLOW);
}
KILIM_INTERPOSED int fstat64(int fd, struct stat64* st) {
  return calls::file_stat(fd, reinterpret_cast<struct stat*>(st),
                          Next<"fstat64", FileStatCall>::get());
}
KILIM_INTERPOSED int fstatat64(int dir, const char* path, struct stat64* st, int flags) {
  return stat_at_by<"fstatat64">(dir, path, reinterpret_cast<struct stat*>(st), flags);
}
// Programs built against a libc older than 2.33. libc's own take the place of the newer names
// there.
KILIM_INTERPOSED int __xstat(int version, const char* path, struct stat* st) {
  return versioned_stat_by<"__xstat">(version, path, st, 0);
}
KILIM_INTERPOSED int __lxstat(int version, const char* path, struct stat* st) {
  return versioned_stat_by<"__lxstat">(version, path, st, AT_SYMLINK_NOFOLLOW);
}
KILIM_INTERPOSED int __fxstat(int version, int fd, struct stat* st) {
  return versioned_file_stat_by<"__fxstat">(version, fd, st);
}
KILIM_INTERPOSED int __xstat64(int version, const char* path, struct stat64* st) {
  return versioned_stat_by<"__xstat64">(version, path, reinterpret_cast<struct stat*>(st), 0);
}
KILIM_INTERPOSED int __lxstat64(int version, const char* path, struct stat64* st) {
  return versioned_stat_by<"__lxstat64">(version, path, reinterpret_cast<struct stat*>(st),
                                         AT_SYMLINK_NOFOLLOW);
}
KILIM_INTERPOSED int __fxstat64(int version, int fd, struct stat64* st) {
  return versioned_file_stat_by<"__fxstat64">(version, fd, reinterpret_cast<struct stat*>(st));
}

// UCX looks whether it may use a device before it opens one.
KILIM_INTERPOSED int access(const char* path, int mode) {
  if (const auto ours = calls::access(noticed(path), mode)) return *ours;
  return pass_on<"access", AccessCall>(raw::access, path, mode);
}
KILIM_INTERPOSED int faccessat(int dir, const char* path, int mode, int flags) {
  if (const auto ours = calls::access(noticed(path), mode)) return *ours;
  return pass_on<"faccessat", AccessAtCall>(raw::access_at, dir, path, mode, flags);
}

// Descriptors.

KILIM_INTERPOSED int socket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK) check_environment_once();
  SocketCall* next = Next<"socket", SocketCall>::get();
  if (device_list::count() != 0) return calls::socket(domain, type, protocol, next);
  return next != nullptr ? next(domain, type, protocol) : raw::socket(domain, type, protocol);
}
KILIM_INTERPOSED int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return calls::ioctl(fd, request, argument, Next<"ioctl", IoctlCall>::get());
}
// NOLINTNEXTLINE(readability-function-size): six parameters, as mmap() has them
KILIM_INTERPOSED void* mmap(void* at, size_t length, int prot, int flags, int fd, off_t offset) {
  return calls::map(at, length, prot, flags, fd, offset, Next<"mmap", MapCall>::get());
}
// NOLINTNEXTLINE(readability-function-size): six parameters, as mmap() has them
KILIM_INTERPOSED void* mmap64(void* at, size_t length, int prot, int flags, int fd,
                              off64_t offset) {
  return calls::map(at, length, prot, flags, fd, offset, Next<"mmap64", MapCall>::get());
}
KILIM_INTERPOSED int munmap(void* at, size_t length) {
  return calls::unmap(at, length, Next<"munmap", UnmapCall>::get());
}
KILIM_INTERPOSED int madvise(void* at, size_t length, int advice) {
  return calls::advise(at, length, advice, Next<"madvise", AdviseCall>::get());
}
KILIM_INTERPOSED void* mremap(void* at, size_t from, size_t to, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  void* where = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  return calls::remap(at, from, to, flags, where, Next<"mremap", RemapCall>::get());
}
KILIM_INTERPOSED int close(int fd) {
  return calls::close(fd, Next<"close", CloseCall>::get());
}

// Signals: once a device is open, a handler for bad memory accesses goes behind ours.

KILIM_INTERPOSED int sigaction(int sig, const struct sigaction* act, struct sigaction* old) {
  if ((sig == SIGSEGV || sig == SIGBUS) && device_is_open()) {
    return dma::client_sigaction(sig, act, old);
  }
  const auto libc = next_by_name(&sigaction, "sigaction", nullptr);
  return libc(sig, act, old);
}

KILIM_INTERPOSED sighandler_t signal(int sig, sighandler_t handler) {
  if ((sig == SIGSEGV || sig == SIGBUS) && handler != SIG_ERR && device_is_open()) {
    struct sigaction act, old;
    std::memset(&act, 0, sizeof(act));
    act.sa_handler = handler;
    act.sa_flags = SA_RESTART;
    return dma::client_sigaction(sig, &act, &old) == 0 ? old.sa_handler : SIG_ERR;
  }
  const auto libc = next_by_name(&signal, "signal", nullptr);
  return libc(sig, handler);
}

// libibverbs and libmlx5: what opens a device or makes an extended completion queue.

KILIM_INTERPOSED ibv_context* ibv_open_device(ibv_device* device) {
  const auto library = next_by_name(&ibv_open_device, "ibv_open_device", "libibverbs.so.1");
  return hook_polls(library(device));
}
KILIM_INTERPOSED ibv_context* ibv_import_device(int fd) {
  const auto library = next_by_name(&ibv_import_device, "ibv_import_device", "libibverbs.so.1");
  return hook_polls(library(fd));
}

struct mlx5dv_context_attr;
struct mlx5dv_cq_init_attr;

KILIM_INTERPOSED ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attr) {
  const auto library = next_by_name(&mlx5dv_open_device, "mlx5dv_open_device", "libmlx5.so.1");
  return hook_polls(library(device, attr));
}
KILIM_INTERPOSED ibv_cq_ex* mlx5dv_create_cq(ibv_context* context, ibv_cq_init_attr_ex* attr,
                                             mlx5dv_cq_init_attr* mlx5_attr) {
  const auto library = next_by_name(&mlx5dv_create_cq, "mlx5dv_create_cq", "libmlx5.so.1");
  return hook_polls(library(context, attr, mlx5_attr));
}
