// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mr/eal_regions.hh"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include <rte_eal_memconfig.h>
#include <rte_memory.h>

#include "kilim/detail/base/memory_reserve.hh"
#include "kilim/detail/mem/range.hh"

namespace kilim::inline v1::mr {
namespace {

void on_event(rte_mem_event event, const void* address, size_t bytes, void* arg) {
  const std::span<std::byte> memory{static_cast<std::byte*>(const_cast<void*>(address)), bytes};
  auto* regions = static_cast<EalRegions*>(arg);
  if (event == RTE_MEM_EVENT_ALLOC) {
    regions->appeared(memory);
  } else {
    regions->vanishing(memory);
  }
}

constexpr const char* callback_name = "kilim_eal_regions";  // told apart by their argument

// Holds EAL's memory lock for reading: no memory event arrives meanwhile.
class MemoryLock {
 public:
  MemoryLock() noexcept { rte_mcfg_mem_read_lock(); }
  ~MemoryLock() { rte_mcfg_mem_read_unlock(); }
  MemoryLock(const MemoryLock&) = delete;
  MemoryLock& operator=(const MemoryLock&) = delete;
};

}  // namespace

Result<std::unique_ptr<EalRegions>> EalRegions::create(Registrar& registrar, uint32_t access,
                                                       const Listener& listener) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  std::unique_ptr<EalRegions> made{new EalRegions(registrar, access, listener)};
  const MemoryLock lock;
  for (const mem::Range& run : mem::eal_runs_locked()) {
    const std::lock_guard guard{made->mutex_};
    if (Status s = made->add(run.span(), run.page_bytes); !s) return s.error();
  }
  made->follows_ = rte_mem_event_callback_register(callback_name, on_event, made.get()) == 0;
  return made;
}

EalRegions::~EalRegions() {
  if (follows_) (void)rte_mem_event_callback_unregister(callback_name, this);
  const std::lock_guard guard{mutex_};
  for (const auto& [address, region] : regions_) leave(region);
  settle();
  for (const Region& region : leaving_) deregister(region);
}

std::vector<Region> EalRegions::regions() const {
  const std::lock_guard guard{mutex_};
  std::vector<Region> out;
  out.reserve(regions_.size());
  for (const auto& [address, region] : regions_) out.push_back(region);
  return out;
}

Status EalRegions::add(std::span<std::byte> memory, uint64_t page_bytes) {
  Result<Region> region = registrar_.register_memory(memory, access_, page_bytes);
  if (!region) {
    failed_.add(1);
    return region.error();
  }
  regions_[region->address] = *region;
  registered_.add(1);
  if (listener_.added != nullptr) listener_.added(listener_.arg, *region);
  return Done{};
}

void EalRegions::leave(const Region& region) {
  if (listener_.removed != nullptr) listener_.removed(listener_.arg, region);
  leaving_.push_back(region);
}

// Deregisters regions that nobody uses any more, the oldest first, up to the first one that
// somebody may still use: so a reader that never reports costs one wait, not one for each region.
void EalRegions::settle() {
  auto at = leaving_.begin();
  for (; at != leaving_.end(); ++at) {
    if (listener_.gone != nullptr && !listener_.gone(listener_.arg, *at)) break;
    deregister(*at);
  }
  if (at != leaving_.end()) late_.add(1);
  leaving_.erase(leaving_.begin(), at);
}

void EalRegions::deregister(const Region& region) {
  (void)registrar_.deregister(region);
  deregistered_.add(1);
}

void EalRegions::appeared(std::span<std::byte> memory) {
  const std::lock_guard guard{mutex_};
  for (const mem::Range& run : mem::runs_in_locked(memory))
    (void)add(run.span(), run.page_bytes);  // what fails is counted: EAL's allocation has been made
}

void EalRegions::vanishing(std::span<std::byte> memory) {
  const auto start = reinterpret_cast<uint64_t>(memory.data());
  const uint64_t end = start + memory.size();
  const std::lock_guard guard{mutex_};
  std::vector<Region> met;
  for (const auto& [address, region] : regions_) {
    if (address < end && start < address + region.length) met.push_back(region);
  }
  for (const Region& old : met) {
    auto* const base = reinterpret_cast<std::byte*>(old.address);
    const uint64_t old_end = old.address + old.length;
    regions_.erase(old.address);
    if (old.address < start) (void)add({base, start - old.address}, old.page_bytes);
    if (end < old_end)
      (void)add({reinterpret_cast<std::byte*>(end), old_end - end}, old.page_bytes);
    leave(old);
  }
  settle();
}

}  // namespace kilim::inline v1::mr
