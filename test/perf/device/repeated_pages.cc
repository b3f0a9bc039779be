// SPDX-License-Identifier: BSD-3-Clause
#include "perf/device/repeated_pages.hh"

#include <algorithm>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kilim/detail/base/fd.hh"

namespace kilim::perf {

RepeatedPages::~RepeatedPages() {
  unmap();
}

void RepeatedPages::unmap() noexcept {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

bool RepeatedPages::map(std::size_t bytes) {
  constexpr std::size_t piece = std::size_t{4} << 20;  // a process has some 65,000 mappings at most
  unmap();
  const Fd file(::memfd_create("kilim-perf", MFD_CLOEXEC));
  if (!file || ::fallocate(file.get(), 0, 0, piece) != 0) return false;
  void* const all = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return false;
  data_ = static_cast<std::byte*>(all);
  bytes_ = bytes;
  for (std::size_t at = 0; at < bytes; at += piece)
    if (::mmap(data_ + at, std::min(piece, bytes - at), PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED)
      return false;
  return true;
}

}  // namespace kilim::perf
