// SPDX-License-Identifier: BSD-3-Clause
// What takes the place of the libraries' calls: a device's are answered by entry/calls.cc, paths of
// the two class folders lead into the tree, all others go on. Any thread.
#include "vhca/entry/redirect.hh"

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <optional>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vhca/entry/attach.hh"
#include "vhca/entry/calls.hh"
#include "vhca/entry/got.hh"

namespace kilim::vhca::entry {

namespace {

// "<any root>/class/infiniband..." becomes our tree's: libibverbs may have cached another root than
// /sys before we came. Null: not such a path; `room` is what it points to else.
const char* in_tree(const char* path, char (&room)[PATH_MAX]) noexcept {
  constexpr char part[] = "/class/infiniband", of_cm[] = "/class/misc/rdma_cm";
  const char* found = path == nullptr || path[0] != '/' ? nullptr : std::strstr(path, part);
  const bool cm = found == nullptr && path != nullptr && path[0] == '/';
  if (cm) found = std::strstr(path, of_cm);
  if (found == nullptr) return path;
  const char* rest = found + (cm ? sizeof(of_cm) : sizeof(part)) - 1;
  if (std::strncmp(rest, "_verbs", 6) == 0) rest += 6;
  if (*rest != '\0' && *rest != '/') return path;
  const int n = std::snprintf(room, sizeof(room), "%s%s", sysfs_root().c_str(), found);
  return n > 0 && static_cast<std::size_t>(n) < sizeof(room) ? room : path;
}

mode_t mode_argument(int flags, va_list arguments) noexcept {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

// What is not a device's goes on as if the library had called by name.
int redirected_open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  char room[PATH_MAX];
  const auto ours = calls::open(path, flags);
  return ours ? *ours : ::open(in_tree(path, room), flags, mode);
}

int redirected_openat(int dir, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  char room[PATH_MAX];
  const auto ours = calls::open(path, flags);
  return ours ? *ours : ::openat(dir, in_tree(path, room), flags, mode);
}

int redirected_stat(const char* path, struct stat* st) {
  char room[PATH_MAX];
  const auto ours = calls::stat(path, st);
  return ours ? *ours : ::stat(in_tree(path, room), st);
}

int redirected_fstat(int fd, struct stat* st) {
  return calls::file_stat(fd, st, &::fstat);
}

DIR* redirected_opendir(const char* path) {
  char room[PATH_MAX];
  return ::opendir(in_tree(path, room));
}

int redirected_socket(int domain, int type, int protocol) {
  return calls::socket(domain, type, protocol, &::socket);
}

int redirected_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return calls::ioctl(fd, request, argument, &::ioctl);
}

ssize_t redirected_write(int fd, const void* from, std::size_t count) {
  return calls::write(fd, from, count, &::write);
}

// NOLINTNEXTLINE(readability-function-size): six parameters, as mmap() has them
void* redirected_mmap(void* at, std::size_t length, int prot, int flags, int fd, off_t offset) {
  return calls::map(at, length, prot, flags, fd, offset, &::mmap);
}

int redirected_close(int fd) {
  return calls::close(fd, &::close);
}

template <typename F>
void* address(F* f) noexcept {
  return reinterpret_cast<void*>(f);
}

const Redirect redirects[] = {
    {"open", address(redirected_open)},       {"open64", address(redirected_open)},
    {"openat", address(redirected_openat)},   {"openat64", address(redirected_openat)},
    {"opendir", address(redirected_opendir)}, {"stat", address(redirected_stat)},
    {"stat64", address(redirected_stat)},     {"fstat", address(redirected_fstat)},
    {"fstat64", address(redirected_fstat)},   {"socket", address(redirected_socket)},
    {"ioctl", address(redirected_ioctl)},     {"write", address(redirected_write)},
    {"mmap", address(redirected_mmap)},       {"mmap64", address(redirected_mmap)},
    {"close", address(redirected_close)},
};

// Under the launcher all others come by name.
const Redirect descriptor_redirects[] = {
    {"write", address(redirected_write)},
};

}  // namespace

void redirect_rdmacm() noexcept {
  (void)redirect_calls("librdmacm.so", descriptor_redirects);
}

// Loaded for the life of the process; libibverbs finds the driver it wants loaded already.
Status redirect_libraries() {
  const char* libraries[] = {"libibverbs.so.1", "libmlx5.so.1", "libnl-3.so.200"};
  for (const char* library : libraries) {
    if (::dlopen(library, RTLD_NOW | RTLD_LOCAL) == nullptr) {
      return Error{ENOENT,
                   "libibverbs, libmlx5 or libnl-3 cannot be loaded: are rdma-core's "
                   "packages installed?"};
    }
  }
  (void)::dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);  // who has none needs none
  (void)redirect_calls("librdmacm.so", redirects);
  if (redirect_calls("libibverbs.so", redirects) < 0 || redirect_calls("libmlx5", redirects) < 0 ||
      redirect_calls("libnl-3.so", redirects) < 0) {
    return Error{EPERM, "the calls of libibverbs cannot be redirected"};
  }
  return Done{};
}

}  // namespace kilim::vhca::entry
