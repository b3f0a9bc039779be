// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Initialization Segment", the internal timer. One store of 8 bytes: a reader of the two
// halves sees the higher one change at worst, and reads again.
#include "vhca/core/core_clock.hh"

#include <span>
#include <utility>

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "kilim/detail/base/be.hh"
#include "vhca/core/own_page.hh"
#include "vhca/core/sealed.hh"
#include "vhca/core/tsc_clock.hh"

namespace kilim::vhca {

namespace {
constexpr std::size_t clock_page_bytes = 4096;

struct System {
  static uint64_t ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
  }
#if defined(__x86_64__)
  static uint64_t ticks() noexcept {
    return __rdtsc();
  }
#endif
};

std::span<const std::byte> page_of(const std::atomic<uint64_t*>& word) noexcept {
  return {reinterpret_cast<const std::byte*>(word.load(std::memory_order_relaxed)),
          clock_page_bytes};
}

#if defined(__x86_64__)
TscClock<System> carried;
const bool steady = has_steady_counter();
#endif
}  // namespace

uint64_t clock_ns() noexcept {
#if defined(__x86_64__)
  if (steady) return carried.ns();
#endif
  return System::ns();
}

CoreClock::~CoreClock() {
  show_no_more();
  if (void* page = word_.load(std::memory_order_relaxed)) ::munmap(page, clock_page_bytes);
}

int CoreClock::fd() noexcept {
  if (fd_ || shown()) return is_origin(fd_.get(), page_of(word_)) ? fd_.get() : -1;
  // Clients map the same page (uverbs/uar.cc).
  Fd fd = sealed_memory("vhca-clock", clock_page_bytes);
  if (!fd) return -1;
  void* page = ::mmap(nullptr, clock_page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (page == MAP_FAILED) return -1;
  write_origin(fd.get(), {static_cast<std::byte*>(page), clock_page_bytes});
  fd_ = std::move(fd);
  word_.store(static_cast<uint64_t*>(page), std::memory_order_release);
  return fd_.get();
}

void CoreClock::show_no_more() noexcept {
  if (fd_) close_origin(fd_, page_of(word_));
}

void CoreClock::store(uint64_t* word, uint64_t now_ns) noexcept {
  // High half first, each half big endian: as a whole it is one big-endian number of 64 bits.
  __atomic_store_n(word, be64{now_ns}.raw(), __ATOMIC_RELAXED);
}

}  // namespace kilim::vhca
