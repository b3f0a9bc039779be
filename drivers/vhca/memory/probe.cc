// SPDX-License-Identifier: BSD-3-Clause
// Whether a range is there: madvise(MADV_POPULATE_*) answers like pinning does (Linux 5.14), which
// refuses what a device or the kernel has mapped; older kernels get one guarded access a page.
#include "vhca/memory/probe.hh"

#include <cerrno>

#include <sys/mman.h>

#include "vhca/memory/dma.hh"

// <asm-generic/mman-common.h>, for C libraries older than Linux 5.14.
#ifndef MADV_POPULATE_READ
#define KILIM_POPULATE_READ 22
#define KILIM_POPULATE_WRITE 23
#else
#define KILIM_POPULATE_READ MADV_POPULATE_READ
#define KILIM_POPULATE_WRITE MADV_POPULATE_WRITE
#endif

namespace kilim::vhca::memory {

namespace {

constexpr uint64_t page = 4096;  // bytes, of x86

// Reads or writes something in each page; `from` and `to` lie on borders of pages.
bool touch(uint64_t from, uint64_t to, bool write) noexcept {
  for (uint64_t at = from; at < to; at += page) {
    uint8_t byte = 0;
    uint64_t old = 0;
    // Adding nothing writes the page without a chance to undo the client's own write.
    bool ok = write ? dma::fetch_add(Va{at}, 0, old) : dma::load(Va{at}, byte);
    if (!ok) return false;
  }
  return true;
}

// The page of a constant of ours can be populated wherever any can.
bool kernel_populates() noexcept {
  static constexpr uint8_t here = 1;
  static const bool does = [] {
    const uint64_t at = reinterpret_cast<uintptr_t>(&here) & ~(page - 1);
    return ::madvise(reinterpret_cast<void*>(at), page, KILIM_POPULATE_READ) == 0;
  }();
  return does;
}

}  // namespace

int probe_range(Va start, uint64_t bytes, bool write) noexcept {
  uint64_t from = start.value() & ~(page - 1);
  uint64_t to = start.value() + bytes;
  if (to < start.value() || to > ~uint64_t{0} - page) return -EINVAL;
  to = (to + page - 1) & ~(page - 1);
  if (from == to) return 0;
  if (!dma::in_client_range(Va{from}, to - from)) return -EFAULT;
  int saved = errno;  // of the client, whose call we are in
  int advice = write ? KILIM_POPULATE_WRITE : KILIM_POPULATE_READ;
  int rc = 0;
  do {
    rc = ::madvise(reinterpret_cast<void*>(from), to - from, advice) == 0 ? 0 : errno;
  } while (rc == EINTR || rc == EAGAIN);
  // EINVAL: an old kernel; otherwise memory of a device, or without the right to write.
  if (rc == EINVAL && !kernel_populates() && touch(from, to, write)) rc = 0;
  errno = saved;
  return rc == 0 ? 0 : -EFAULT;
}

}  // namespace kilim::vhca::memory
