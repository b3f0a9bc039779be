// SPDX-License-Identifier: BSD-3-Clause
// libkilim-vhca.so, the way in for programs that know nothing of Kilim: the launcher has it loaded
// before all other libraries, and the names below take the place of libc's and libibverbs's. Does
// nothing but ask the kernel until a path of a virtual device is met. Any thread.

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
#include "vhca/entry/poll_hook.hh"
#include "vhca/entry/raw.hh"
#include "vhca/hca/dma_guard.hh"

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

void look_at_environment_once() noexcept {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, &add_launched_devices);
}

// The first of these paths makes the devices known; nothing before it costs more than a comparison.
const char* noticed(const char* path) noexcept {
  if (path != nullptr && std::strncmp(path, "/dev/infiniband/", 16) == 0) {
    look_at_environment_once();
  }
  return path;
}

mode_t mode_argument(int flags, va_list arguments) noexcept {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

// The function that would have been called without us. A library that was loaded privately (an
// extension of an interpreter) is not among "the next ones".
template <typename F>
F* next(F*, const char* name, const char* library) noexcept {
  void* symbol = ::dlsym(RTLD_NEXT, name);
  if (symbol == nullptr && library != nullptr) {
    if (void* loaded = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD); loaded != nullptr) {
      symbol = ::dlsym(loaded, name);
    }
  }
  return reinterpret_cast<F*>(symbol);
}

bool device_is_open() noexcept {
  for (std::size_t i = 0; i < device_list::count(); i++) {
    if (device_list::at(i)->live() != nullptr) return true;
  }
  return false;
}

void* find_device(const char* name) {
  look_at_environment_once();
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
  look_at_environment_once();
  return device_list::count() == 0 ? nullptr : &table;
}

// Paths.

KILIM_INTERPOSED int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return calls::open_at(AT_FDCWD, noticed(path), flags, mode);
}

KILIM_INTERPOSED int openat(int dir, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return calls::open_at(dir, noticed(path), flags, mode);
}

KILIM_INTERPOSED int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return calls::open_at(AT_FDCWD, noticed(path), flags, mode);
}

KILIM_INTERPOSED int openat64(int dir, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  return calls::open_at(dir, noticed(path), flags, mode);
}

KILIM_INTERPOSED int __open_2(const char* path, int flags) {
  return calls::open_at(AT_FDCWD, noticed(path), flags, 0);
}
KILIM_INTERPOSED int __open64_2(const char* path, int flags) {
  return calls::open_at(AT_FDCWD, noticed(path), flags, 0);
}
KILIM_INTERPOSED int __openat_2(int dir, const char* path, int flags) {
  return calls::open_at(dir, noticed(path), flags, 0);
}
KILIM_INTERPOSED int __openat64_2(int dir, const char* path, int flags) {
  return calls::open_at(dir, noticed(path), flags, 0);
}

// struct stat and struct stat64 are one on 64-bit machines. An empty path names `dir` itself.

KILIM_INTERPOSED int stat(const char* path, struct stat* st) {
  return calls::stat_at(AT_FDCWD, noticed(path), st, 0);
}
KILIM_INTERPOSED int lstat(const char* path, struct stat* st) {
  return calls::stat_at(AT_FDCWD, noticed(path), st, AT_SYMLINK_NOFOLLOW);
}
KILIM_INTERPOSED int fstat(int fd, struct stat* st) {
  return calls::file_stat(fd, st);
}
KILIM_INTERPOSED int fstatat(int dir, const char* path, struct stat* st, int flags) {
  if ((flags & AT_EMPTY_PATH) != 0 && *path == '\0' && dir >= 0) {
    return calls::file_stat(dir, st);
  }
  return calls::stat_at(dir, noticed(path), st, flags);
}
KILIM_INTERPOSED int stat64(const char* path, struct stat64* st) {
  return stat(path, reinterpret_cast<struct stat*>(st));
}
KILIM_INTERPOSED int lstat64(const char* path, struct stat64* st) {
  return lstat(path, reinterpret_cast<struct stat*>(st));
}
KILIM_INTERPOSED int fstat64(int fd, struct stat64* st) {
  return fstat(fd, reinterpret_cast<struct stat*>(st));
}
KILIM_INTERPOSED int fstatat64(int dir, const char* path, struct stat64* st, int flags) {
  return fstatat(dir, path, reinterpret_cast<struct stat*>(st), flags);
}
// Programs built against a libc older than 2.33.
KILIM_INTERPOSED int __xstat(int, const char* path, struct stat* st) {
  return stat(path, st);
}
KILIM_INTERPOSED int __lxstat(int, const char* path, struct stat* st) {
  return lstat(path, st);
}
KILIM_INTERPOSED int __fxstat(int, int fd, struct stat* st) {
  return fstat(fd, st);
}
KILIM_INTERPOSED int __xstat64(int, const char* path, struct stat64* st) {
  return stat64(path, st);
}
KILIM_INTERPOSED int __lxstat64(int, const char* path, struct stat64* st) {
  return lstat64(path, st);
}
KILIM_INTERPOSED int __fxstat64(int, int fd, struct stat64* st) {
  return fstat64(fd, st);
}

// UCX looks whether it may use a device before it opens one.
KILIM_INTERPOSED int access(const char* path, int mode) {
  return calls::access_at(AT_FDCWD, noticed(path), mode, 0);
}
KILIM_INTERPOSED int faccessat(int dir, const char* path, int mode, int flags) {
  return calls::access_at(dir, noticed(path), mode, flags);
}

// Descriptors.

KILIM_INTERPOSED int socket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK) look_at_environment_once();
  return device_list::count() == 0 ? raw::socket(domain, type, protocol)
                                   : calls::socket(domain, type, protocol);
}
KILIM_INTERPOSED int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return calls::ioctl(fd, request, argument);
}
// NOLINTNEXTLINE(readability-function-size): six parameters, as mmap() has them
KILIM_INTERPOSED void* mmap(void* at, size_t length, int prot, int flags, int fd, off_t offset) {
  return calls::map(at, length, prot, flags, fd, offset);
}
// NOLINTNEXTLINE(readability-function-size): six parameters, as mmap() has them
KILIM_INTERPOSED void* mmap64(void* at, size_t length, int prot, int flags, int fd,
                              off64_t offset) {
  return calls::map(at, length, prot, flags, fd, offset);
}
KILIM_INTERPOSED int munmap(void* at, size_t length) {
  return calls::unmap(at, length);
}
KILIM_INTERPOSED int madvise(void* at, size_t length, int advice) {
  return calls::advise(at, length, advice);
}
KILIM_INTERPOSED void* mremap(void* at, size_t from, size_t to, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  void* where = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  return calls::remap(at, from, to, flags, where);
}
KILIM_INTERPOSED int close(int fd) {
  return calls::close(fd);
}

// Signals: once a device is open, a handler for bad memory accesses goes behind ours.

KILIM_INTERPOSED int sigaction(int sig, const struct sigaction* act, struct sigaction* old) {
  if ((sig == SIGSEGV || sig == SIGBUS) && device_is_open()) {
    return dma::client_sigaction(sig, act, old);
  }
  const auto libc = next(&sigaction, "sigaction", nullptr);
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
  const auto libc = next(&signal, "signal", nullptr);
  return libc(sig, handler);
}

// libibverbs and libmlx5: what opens a device or makes an extended completion queue.

KILIM_INTERPOSED ibv_context* ibv_open_device(ibv_device* device) {
  const auto library = next(&ibv_open_device, "ibv_open_device", "libibverbs.so.1");
  return hook_polls(library(device));
}
KILIM_INTERPOSED ibv_context* ibv_import_device(int fd) {
  const auto library = next(&ibv_import_device, "ibv_import_device", "libibverbs.so.1");
  return hook_polls(library(fd));
}

struct mlx5dv_context_attr;
struct mlx5dv_cq_init_attr;

KILIM_INTERPOSED ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attr) {
  const auto library = next(&mlx5dv_open_device, "mlx5dv_open_device", "libmlx5.so.1");
  return hook_polls(library(device, attr));
}
KILIM_INTERPOSED ibv_cq_ex* mlx5dv_create_cq(ibv_context* context, ibv_cq_init_attr_ex* attr,
                                             mlx5dv_cq_init_attr* mlx5_attr) {
  const auto library = next(&mlx5dv_create_cq, "mlx5dv_create_cq", "libmlx5.so.1");
  return hook_polls(library(context, attr, mlx5_attr));
}
