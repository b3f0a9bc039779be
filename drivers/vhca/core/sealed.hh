// SPDX-License-Identifier: BSD-3-Clause
// Memory with a descriptor, all of it there and its length for good: memfd_create(2), fallocate(2),
// fcntl(2) "File Sealing". A touch of a page that a full machine cannot give, or that somebody cut
// off the file, would end the process by SIGBUS, so what processes map and share is made here.
// Set-up, any thread; never touches the memory itself.
#pragma once

#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "kilim/detail/base/fd.hh"

namespace kilim::vhca {

// Zeroes. No descriptor, with errno set: the machine has no memory of this size, or no memfd.
inline Fd sealed_memory(const char* name, std::size_t bytes) noexcept {
  Fd memory(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::fallocate(memory.get(), 0, 0, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int error = errno;
    memory.reset();
    errno = error;
  }
  return memory;
}

// Whether a descriptor, which may be anybody's, is such memory of `bytes`.
inline bool is_sealed_memory(int fd, std::size_t bytes) noexcept {
  struct stat st;
  if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size != static_cast<off_t>(bytes))
    return false;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

}  // namespace kilim::vhca
