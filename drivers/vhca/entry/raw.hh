// SPDX-License-Identifier: BSD-3-Clause
// The system calls that this room interposes, asked of the kernel directly, whatever else is
// loaded: those that it makes itself, and the answer to others while nobody stands behind ours
// (next.hh). Any thread, also in a signal handler. Never looks up a symbol: that could allocate, or
// find ourselves.
#pragma once

#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kilim::vhca::entry::raw {

inline int open(const char* path, int flags, mode_t mode) noexcept {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
inline int open_at(int dir, const char* path, int flags, mode_t mode) noexcept {
  return static_cast<int>(::syscall(SYS_openat, dir, path, flags, mode));
}
inline int stat_at(int dir, const char* path, struct stat* st, int flags) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, dir, path, st, flags));
}
// The older call has no flags, and is in every kernel.
inline int access_at(int dir, const char* path, int mode, int flags) noexcept {
  return static_cast<int>(flags == 0 ? ::syscall(SYS_faccessat, dir, path, mode)
                                     : ::syscall(SYS_faccessat2, dir, path, mode, flags));
}
inline int access(const char* path, int mode) noexcept {
  return access_at(AT_FDCWD, path, mode, 0);
}
inline int file_stat(int fd, struct stat* st) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, fd, st));
}
inline int socket(int domain, int type, int protocol) noexcept {
  return static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
}
inline int ioctl(int fd, unsigned long request, void* argument) noexcept {
  return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
}
inline ssize_t write(int fd, const void* from, std::size_t count) noexcept {
  return ::syscall(SYS_write, fd, from, count);
}
// NOLINTNEXTLINE(readability-function-size): six parameters, as mmap() has them
inline void* map(void* at, std::size_t length, int prot, int flags, int fd,
                 int64_t offset) noexcept {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, length, prot, flags, fd, offset));
}
inline int unmap(void* at, std::size_t length) noexcept {
  return static_cast<int>(::syscall(SYS_munmap, at, length));
}
inline int advise(void* at, std::size_t length, int advice) noexcept {
  return static_cast<int>(::syscall(SYS_madvise, at, length, advice));
}
inline void* remap(void* at, std::size_t from, std::size_t to, int flags, void* where) noexcept {
  return reinterpret_cast<void*>(::syscall(SYS_mremap, at, from, to, flags, where));
}
inline ssize_t send(int fd, const struct msghdr* message, int flags) noexcept {
  return ::syscall(SYS_sendmsg, fd, message, flags);
}
inline int close(int fd) noexcept {
  return static_cast<int>(::syscall(SYS_close, fd));
}

}  // namespace kilim::vhca::entry::raw
