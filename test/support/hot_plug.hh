// SPDX-License-Identifier: BSD-3-Clause
// For tests of EAL's memory as it comes and goes: by EAL's own hot-plug events where the machine
// has huge pages, elsewhere external memory stands for it and the events are called. Main thread
// starts EAL; a piece of memory belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <rte_eal.h>
#include <rte_eal_memconfig.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <sys/mman.h>

#include "ut.hh"

namespace kilim::test {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;
inline bool hot_plug = false;  // EAL's own events tell of its memory

// Valgrind leaves EAL no addresses for memory that may grow.
inline bool under_valgrind() {
  const char* preload = std::getenv("LD_PRELOAD");
  return preload != nullptr && std::strstr(preload, "/vgpreload_") != nullptr;
}

// `free_pages`: huge ones that the machine has left; KILIM_UT_NO_HUGE does without. `ordinary`: how
// much EAL takes then, like -m64. False: EAL does not start.
inline bool start_growing_eal(std::size_t free_pages, const char* ordinary) {
  constexpr const char* by_hand = "KILIM_UT_NO_HUGE";
  constexpr std::size_t enough = 16;
  hot_plug = std::getenv(by_hand) == nullptr && !under_valgrind() && free_pages >= enough;
  // No -m: memory of the beginning is never given back, and what a test frees would be there still.
  const char* with_huge[] = {"kilim_ut",          "-l0",        "--no-pci", "--no-telemetry",
                             "--log-level=error", "--in-memory"};
  const char* without[] = {"kilim_ut",          "-l0",       "--no-pci",    "--no-telemetry",
                           "--log-level=error", "--no-huge", "--no-shconf", ordinary};
  if (!hot_plug) std::puts("EAL's events are called by hand");
  const int rc = hot_plug ? rte_eal_init(6, const_cast<char**>(with_huge))
                          : rte_eal_init(8, const_cast<char**>(without));
  if (rc < 0 && hot_plug) {  // other processes have taken the pages
    ::setenv(by_hand, "1", 1);
    start_again();
  }
  return rc >= 0;
}

// EAL's own memory, or external memory of whose coming and going `Regions` (mr::EalRegions) is
// told.
template <typename Regions>
class ComingMemory {
 public:
  ComingMemory(Regions& regions, std::size_t bytes) : regions_(regions), bytes_(bytes) {
    if (hot_plug) at_ = static_cast<std::byte*>(rte_malloc(nullptr, bytes, huge_page));
    if (at_ != nullptr) return;  // else other processes have taken the pages
    void* p = ::mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    mapped_ = static_cast<std::byte*>(p);
    at_ = mapped_ + (huge_page - reinterpret_cast<uintptr_t>(p) % huge_page) % huge_page;
    (void)rte_extmem_register(at_, bytes, nullptr, static_cast<unsigned>(bytes / huge_page),
                              huge_page);
    rte_mcfg_mem_read_lock();
    regions_.appeared({at_, bytes});
    rte_mcfg_mem_read_unlock();
  }
  void go() {
    if (mapped_ == nullptr) {
      rte_free(at_);
    } else if (at_ != nullptr) {
      rte_mcfg_mem_read_lock();
      regions_.vanishing({at_, bytes_});
      rte_mcfg_mem_read_unlock();
      (void)rte_extmem_unregister(at_, bytes_);
      ::munmap(mapped_, bytes_ + huge_page);
    }
    at_ = nullptr;
  }
  ~ComingMemory() { go(); }
  ComingMemory(const ComingMemory&) = delete;
  ComingMemory& operator=(const ComingMemory&) = delete;
  [[nodiscard]] std::byte* at() const { return at_; }

 private:
  Regions& regions_;
  std::size_t bytes_;
  std::byte* at_ = nullptr;
  std::byte* mapped_ = nullptr;
};

}  // namespace kilim::test
