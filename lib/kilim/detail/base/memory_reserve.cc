// SPDX-License-Identifier: BSD-3-Clause
// The reserve is a std::new_handler: operator new asks it before it gives up. Parts are mapped and
// never touched, so they cost address space alone; giving one back makes room under RLIMIT_AS and
// in the kernel's account of what is promised.
#include "kilim/detail/base/memory_reserve.hh"

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kilim::inline v1::memory_reserve {

thread_local unsigned Scope::depth = 0;

namespace {

// A call allocates less than one part: the longest are the table of all queue pairs when it grows,
// and the list of an indirect key.
constexpr std::size_t part_bytes = 4 << 20;
constexpr std::size_t part_count = 4;

std::array<std::atomic<void*>, part_count> parts;
std::atomic<std::size_t> left{0};
std::atomic<bool> everybody{false};
std::atomic<std::new_handler> next{nullptr};  // whose turn it is where we cannot help

void* map_part() noexcept {
  const long at = ::syscall(SYS_mmap, nullptr, part_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
  return at == -1 ? nullptr : reinterpret_cast<void*>(at);
}

void unmap_part(void* at, std::size_t bytes) noexcept {
  ::syscall(SYS_munmap, at, bytes);
}

thread_local bool asks = false;  // this thread is in the handler before us

// The handler before us, asked. It may throw.
class Asking {
 public:
  Asking() noexcept { asks = true; }
  ~Asking() { asks = false; }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
};

// Operator new tries again behind it. Where the reserve is empty, or the allocation not ours, the
// handler before us is asked, which may throw; where there was none, none is left until the next
// call of the device, so that operator new fails. Two handlers may name each other: a process that
// loads the library twice has two reserves, and each puts itself in front of what it finds.
void give_a_part() {
  if (everybody.load(std::memory_order_relaxed) || Scope::here()) {
    for (std::atomic<void*>& part : parts) {
      void* at = part.exchange(nullptr, std::memory_order_acq_rel);
      if (at == nullptr) continue;
      left.fetch_sub(1, std::memory_order_release);
      return unmap_part(at, part_bytes);
    }
  }
  const std::new_handler before = next.load(std::memory_order_acquire);
  if (before == nullptr || asks) {
    std::set_new_handler(nullptr);
    return;
  }
  const Asking asking;
  before();
}

void stand_in_front() noexcept {
  const std::new_handler now = std::get_new_handler();
  if (now == &give_a_part) return;
  next.store(now, std::memory_order_release);
  std::set_new_handler(&give_a_part);
}

}  // namespace

void serve_everybody() noexcept {
  everybody.store(true, std::memory_order_relaxed);
}

bool fill() noexcept {
  stand_in_front();
  if (whole()) return true;
  for (std::atomic<void*>& part : parts) {
    if (part.load(std::memory_order_acquire) != nullptr) continue;
    void* at = map_part();
    if (at == nullptr) return false;
    void* none = nullptr;
    if (part.compare_exchange_strong(none, at, std::memory_order_acq_rel))
      left.fetch_add(1, std::memory_order_release);
    else
      unmap_part(at, part_bytes);
  }
  return whole();
}

bool whole() noexcept {
  return left.load(std::memory_order_acquire) == part_count;
}

bool exhausted() noexcept {
  return left.load(std::memory_order_acquire) == 0;
}

bool has_room(unsigned long bytes) noexcept {
  const long at = ::syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
  if (at == -1) return false;
  unmap_part(reinterpret_cast<void*>(at), bytes);
  return true;
}

}  // namespace kilim::inline v1::memory_reserve
