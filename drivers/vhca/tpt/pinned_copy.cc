// SPDX-License-Identifier: BSD-3-Clause
// /proc/self/mem reaches memory whatever its protection says, but for writes into shared mappings
// (Linux mm/gup.c, check_vma_flags(): FOLL_FORCE is for copy-on-write mappings). Of those a second
// mapping is made by mremap(2) with an old size of 0, which may be written. Page by page.
#include "vhca/tpt/pinned_copy.hh"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vhca/memory/dma.hh"
#include "vhca/tpt/memory_map.hh"

namespace kilim::vhca::tpt {

namespace {

constexpr uint64_t page_bytes = 4096;

// Opened for each fault: a descriptor that is kept is the client's to close.
class ProcessMemory {
 public:
  ProcessMemory() noexcept
      : fd_(static_cast<int>(
            ::syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDWR | O_CLOEXEC, 0))) {}
  ~ProcessMemory() {
    if (fd_ >= 0) ::syscall(SYS_close, fd_);
  }
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;
  bool read(void* to, uint64_t from, uint64_t bytes) const noexcept {
    return ::syscall(SYS_pread64, fd_, to, bytes, from) == static_cast<long>(bytes);
  }
  bool write(uint64_t to, const void* from, uint64_t bytes) const noexcept {
    return ::syscall(SYS_pwrite64, fd_, from, bytes, to) == static_cast<long>(bytes);
  }

 private:
  const int fd_;
};

// A kernel may refuse it to everybody (proc_mem.force_override=, Linux 6.12), and does to a process
// that is not dumpable (a program with the setuid bit).
void say_refused() noexcept {
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    std::fprintf(
        stderr,
        "kilim-vhca: registered memory was protected by mprotect() and the kernel does not "
        "let the device reach it by /proc/self/mem: its requests fail, a card's would not\n");
}

// How much of [va, va + bytes) lies in one page.
uint64_t in_page(uint64_t va, uint64_t bytes) noexcept {
  return std::min(bytes, page_bytes - va % page_bytes);
}

// Bytes within a page of a shared mapping, whose pages are of this size.
bool write_alias(uint64_t to, const void* from, uint64_t bytes, uint64_t unit) noexcept {
  const uint64_t page = to & ~(unit - 1);
  const long at = ::syscall(SYS_mremap, page, 0L, unit, MREMAP_MAYMOVE, 0L);
  if (at == -1) return false;
  // A file that was opened to be read alone, or is sealed, may not be written by a card either.
  const bool done = ::syscall(SYS_mprotect, at, unit, PROT_READ | PROT_WRITE) == 0 &&
                    memory::dma::copy_out(Va{static_cast<uint64_t>(at) + (to - page)}, from, bytes);
  ::syscall(SYS_munmap, at, unit);
  return done;
}

bool write_shared(uint64_t to, const void* from, uint64_t bytes) noexcept {
  for (const uint64_t unit : {page_bytes, uint64_t{2} << 20, uint64_t{1} << 30}) {
    if (write_alias(to, from, bytes, unit)) return true;
  }
  return false;
}

}  // namespace

bool read_pinned(void* to, uint64_t from, uint64_t bytes) noexcept {
  if (memory::dma::copy_in(to, Va{from}, bytes)) return true;
  if (!memory::dma::in_client_range(Va{from}, bytes)) return false;
  if (ProcessMemory().read(to, from, bytes)) return true;
  MappingKind kind;
  PageRange around;
  if (find_mapping(from, around, kind) && around.start <= from && !kind.may_read) say_refused();
  return false;
}

// Code that was mapped where a region was is not written: the region is gone, as lint tells.
bool write_pinned(uint64_t to, const void* from, uint64_t bytes) noexcept {
  if (memory::dma::copy_out(Va{to}, from, bytes)) return true;
  if (!memory::dma::in_client_range(Va{to}, bytes)) return false;
  const auto* bytes_left = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const uint64_t n = in_page(to, bytes);
    MappingKind kind;
    PageRange around;
    if (!find_mapping(to, around, kind) || around.start > to || kind.may_execute) return false;
    const bool done =
        kind.shared ? write_shared(to, bytes_left, n) : ProcessMemory().write(to, bytes_left, n);
    if (!done) {
      if (!kind.shared && !kind.may_write) say_refused();
      return false;
    }
    to += n;
    bytes_left += n;
    bytes -= n;
  }
  return true;
}

bool copy_pinned_slowly(uint64_t to, uint64_t from, uint64_t bytes, bool& from_is_there) noexcept {
  std::byte some[page_bytes];
  from_is_there = true;
  while (bytes > 0) {
    const uint64_t n = in_page(from, bytes);
    from_is_there = read_pinned(some, from, n);
    if (!from_is_there || !write_pinned(to, some, n)) return false;
    to += n;
    from += n;
    bytes -= n;
  }
  return true;
}

}  // namespace kilim::vhca::tpt
