// SPDX-License-Identifier: BSD-3-Clause
// EAL cannot be asked whether it was cleaned up: rte_eal_memory_detach() (DPDK 22.11,
// eal_common_memory.c) unmaps all segments and the table of them. mincore(2) fails with ENOMEM for
// a page that is not mapped.
#include "kilim/detail/base/outlived.hh"

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include <sys/mman.h>
#include <unistd.h>

namespace kilim::inline v1 {

bool is_mapped(const void* at) noexcept {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  unsigned char there = 0;
  void* start = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) & ~(page - 1));
  return ::mincore(start, 1, &there) == 0 || errno != ENOMEM;
}

bool outlived_eal(const void* at, const char* what) noexcept {
  if (is_mapped(at)) return false;
  std::fprintf(stderr,
               "kilim: %s outlives rte_eal_cleanup(), which took its memory: destroy it before\n",
               what);
  return true;
}

}  // namespace kilim::inline v1
