// SPDX-License-Identifier: BSD-3-Clause
// Pages of memory that are mapped here and have a descriptor: the descriptor's number is the
// client's to close (a daemon calls closefrom(3)) and then leads to a file of its own, which must
// not be mapped, written or closed by us. A page says at its end, where no format has anything,
// which file it is of. Owner: whoever mapped it. Asks the kernel itself, since the C library's
// calls may be interposed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"

namespace kilim::vhca {

struct PageOrigin {
  uint64_t device = 0, inode = 0;
  bool operator==(const PageOrigin&) const = default;
};

// Tells which file a number leads to now; all zeroes: to none.
inline PageOrigin origin_of(int fd) noexcept {
  struct stat st;
  if (::syscall(SYS_fstat, fd, &st) != 0) return {};
  return {st.st_dev, st.st_ino};
}

// Marks a fresh page, before anybody else has it.
inline void write_origin(int fd, std::span<std::byte> page) noexcept {
  const PageOrigin origin = origin_of(fd);
  std::memcpy(page.last(sizeof origin).data(), &origin, sizeof origin);
}
inline bool is_origin(int fd, std::span<const std::byte> page) noexcept {
  PageOrigin written;
  std::memcpy(&written, page.last(sizeof written).data(), sizeof written);
  return fd >= 0 && written != PageOrigin{} && origin_of(fd) == written;
}

// Closes the page's file, and leaves a stranger's alone.
inline void close_origin(Fd& fd, std::span<const std::byte> page) noexcept {
  if (fd && !is_origin(fd.get(), page)) (void)fd.release();
  fd.reset();
}

}  // namespace kilim::vhca
