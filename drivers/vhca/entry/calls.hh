// SPDX-License-Identifier: BSD-3-Clause
// What the interposed calls do: those on a virtual device are answered by it, all others by `next`,
// the function that would have been called without us; null: by the kernel. One implementation for
// both ways in (preload.cc, attach.cc). Results and errno are those of the calls they stand for.
// Any thread; foreign descriptors and paths meet no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "vhca/entry/next.hh"

namespace kilim::vhca::entry::calls {

// By path. Nothing: it is not a device's.
std::optional<int> open(const char* path, int flags) noexcept;
std::optional<int> stat(const char* path, struct stat* st) noexcept;
std::optional<int> access(const char* path, int mode) noexcept;

int file_stat(int fd, struct stat* st, FileStatCall* next = nullptr) noexcept;
int socket(int domain, int type, int protocol, SocketCall* next = nullptr) noexcept;
int ioctl(int fd, unsigned long request, void* argument, IoctlCall* next = nullptr) noexcept;
ssize_t write(int fd, const void* from, std::size_t count, WriteCall* next = nullptr) noexcept;
// Descriptors that go to another process (SCM_RIGHTS): a device's doorbell pages may be rung there.
ssize_t send(int fd, const struct msghdr* message, int flags, SendCall* next = nullptr) noexcept;
// NOLINTNEXTLINE(readability-function-size): the parameters of mmap(), and one
void* map(void* at, std::size_t length, int prot, int flags, int fd, int64_t offset,
          MapCall* next = nullptr) noexcept;
// Client memory that goes or moves, where userfaultfd may not see it: regions with on-demand paging
// are told. One load more than the call itself while there is none.
int unmap(void* at, std::size_t length, UnmapCall* next = nullptr) noexcept;
int advise(void* at, std::size_t length, int advice, AdviseCall* next = nullptr) noexcept;
// NOLINTNEXTLINE(readability-function-size): the parameters of mremap(), and one
void* remap(void* at, std::size_t from, std::size_t to, int flags, void* where,
            RemapCall* next = nullptr) noexcept;
int close(int fd, CloseCall* next = nullptr) noexcept;

}  // namespace kilim::vhca::entry::calls
