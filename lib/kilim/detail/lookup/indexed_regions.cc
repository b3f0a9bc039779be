// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/lookup/indexed_regions.hh"

#include <chrono>
#include <thread>

#include "kilim/detail/base/memory_reserve.hh"

namespace kilim::inline v1::lookup {

Result<std::unique_ptr<IndexedRegions>> IndexedRegions::create(mr::Registrar& registrar,
                                                               Index& index, const Config& config) {
  const memory_reserve::Making memory_left;
  if (!memory_left) return memory_left.error();
  std::unique_ptr<IndexedRegions> made{new IndexedRegions(index, config.patience_ms)};
  auto eal = mr::EalRegions::create(registrar, config.access, made->listener());
  if (!eal) return eal.error();
  made->eal_ = *std::move(eal);
  return made;
}

mr::EalRegions::Listener IndexedRegions::listener() noexcept {
  return {.arg = this,
          .added =
              [](void* me, const mr::Region& region) {
                auto* self = static_cast<IndexedRegions*>(me);
                if (!self->add(region)) self->not_indexed_.add(1);
              },
          .removed =
              [](void* me, const mr::Region& region) {
                // ENOENT: the index had no memory for this region.
                (void)static_cast<IndexedRegions*>(me)->remove(region.lkey);
              },
          .gone =
              [](void* me, const mr::Region& region) {
                return static_cast<IndexedRegions*>(me)->wait_gone(region.lkey);
              }};
}

Status IndexedRegions::add(const mr::Region& region) {
  const std::lock_guard guard{mutex_};
  return index_.add(region);
}

Status IndexedRegions::remove(Lkey key) {
  const std::lock_guard guard{mutex_};
  return index_.remove(key);
}

bool IndexedRegions::gone(Lkey key) {
  const std::lock_guard guard{mutex_};
  return index_.gone(key);
}

bool IndexedRegions::wait_gone(Lkey key) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds{patience_ms_};
  while (!gone(key)) {
    if (Clock::now() >= end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace kilim::inline v1::lookup
