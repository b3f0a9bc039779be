// SPDX-License-Identifier: BSD-3-Clause
// libkilim-vhca.so (preload.hh): calls by path. Any thread.

#include <cstdarg>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>

#include "vhca/entry/calls.hh"
#include "vhca/entry/next.hh"
#include "vhca/entry/open_files.hh"
#include "vhca/entry/preload.hh"
#include "vhca/entry/raw.hh"

namespace kilim::vhca::entry {
namespace {

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

}  // namespace
}  // namespace kilim::vhca::entry

using namespace kilim::vhca;
using namespace kilim::vhca::entry;

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
