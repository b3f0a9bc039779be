// SPDX-License-Identifier: BSD-3-Clause
// What the interposed calls do: those on a virtual device are answered by it, all others by the
// kernel. One implementation for both ways in (preload.cc, attach.cc). Results and errno are those
// of the calls they stand for. Any thread; foreign descriptors and paths meet no lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/stat.h>
#include <sys/types.h>

namespace kilim::vhca::calls {

int open_at(int dir, const char* path, int flags, mode_t mode) noexcept;
int stat_at(int dir, const char* path, struct stat* st, int flags) noexcept;
int access_at(int dir, const char* path, int mode, int flags) noexcept;
int file_stat(int fd, struct stat* st) noexcept;
int socket(int domain, int type, int protocol) noexcept;
int ioctl(int fd, unsigned long request, void* argument) noexcept;
ssize_t write(int fd, const void* from, std::size_t count) noexcept;
void* map(void* at, std::size_t length, int prot, int flags, int fd, int64_t offset) noexcept;
// Client memory that goes or moves, where userfaultfd may not see it: regions with on-demand paging
// are told. One load more than the call itself while there is none.
int unmap(void* at, std::size_t length) noexcept;
int advise(void* at, std::size_t length, int advice) noexcept;
void* remap(void* at, std::size_t from, std::size_t to, int flags, void* where) noexcept;
int close(int fd) noexcept;

}  // namespace kilim::vhca::calls
