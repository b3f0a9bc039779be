// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/relaxed/cover.hh"

#include <algorithm>
#include <cerrno>

#include "kilim/detail/mem/range.hh"
#include "kilim/detail/relaxed/eal_watch.hh"

namespace kilim::inline v1::relaxed {
namespace {

// The run of EAL's memory in which all of `pages` lies, else an empty one.
mem::Range eal_run_of(std::span<const std::byte> pages) {
  const auto begin = reinterpret_cast<uint64_t>(pages.data());
  for (const mem::Range& run : mem::eal_runs()) {
    const auto base = reinterpret_cast<uint64_t>(run.base);
    if (begin >= base && begin - base <= run.bytes && pages.size() <= run.bytes - (begin - base))
      return run;
  }
  return {};
}

}  // namespace

Cover::~Cover() {
  for (const auto& arena : arenas_)
    if (arena->keeper != Keeper::caller) (void)registrar_->deregister(arena->region);
}

Arena& Cover::insert(const mr::Region& region, Keeper keeper) {
  const auto behind = std::upper_bound(
      arenas_.begin(), arenas_.end(), region.address,
      [](uint64_t address, const auto& arena) { return address < arena->region.address; });
  auto arena = std::make_unique<Arena>(Arena{.region = region, .keeper = keeper});
  longest_ = std::max(longest_, region.length);
  return **arenas_.insert(behind, std::move(arena));
}

Status Cover::add(const mr::Region& region) {
  if (region.length == 0 || region.address + (region.length - 1) < region.address)
    return Error{EINVAL, "an arena is empty or wraps"};
  insert(region, Keeper::caller);
  return Done{};
}

Status Cover::add_implicit(std::span<const mr::OdpUse> uses) {
  if (registrar_ == nullptr) return Error{ENOENT, "nobody is there to register memory on demand"};
  for (const uint32_t access : {mr::Access::all, mr::Access::remote_read}) {
    Result<mr::Region> region = registrar_->register_implicit(access, uses);
    if (!region) return region.error();
    insert(*region, Keeper::device).least = access & mr::Access::local_write;
    made_++;
  }
  return Done{};
}

bool Cover::withdraw(const mr::Region& region) noexcept {
  bool unused = true;
  for (const auto& arena : arenas_) {
    if (arena->region.lkey != region.lkey) continue;
    arena->open = false;
    unused = unused && arena->users == 0;
  }
  if (unused) release_unused();
  return unused;
}

// Looks backwards from the last arena that begins at or before `address`, as far as the longest
// arena can reach.
Arena* Cover::search(uint64_t address, uint64_t bytes, uint32_t access) noexcept {
  auto at = std::upper_bound(
      arenas_.begin(), arenas_.end(), address,
      [](uint64_t where, const auto& arena) { return where < arena->region.address; });
  while (at != arenas_.begin()) {
    --at;
    Arena& arena = **at;
    if (address - arena.region.address >= longest_) return nullptr;
    if (arena.serves(address, bytes, access)) return last_ = &arena;
  }
  return nullptr;
}

void Cover::follow_eal() noexcept {
  const uint64_t losses = eal_losses();
  if (losses == eal_losses_) return;
  eal_losses_ = losses;
  for (const auto& arena : arenas_)
    if (arena->keeper == Keeper::eal) arena->open = false;
  release_unused();
}

// Registers with all rights first, so that later requests find the arena too. Read-only memory is
// refused so, and is registered with the rights of this request.
Result<Arena*> Cover::make(std::span<std::byte> pages, uint32_t access) {
  if (registrar_ == nullptr)
    return Error{ENOENT, "no arena covers this memory, and nobody is there to register one"};
  watch_eal();
  follow_eal();
  const mem::Range run = eal_run_of(pages);
  const bool eal = run.bytes != 0;
  const std::span<std::byte> memory = eal ? run.span() : pages;
  const uint64_t page_bytes = eal ? run.page_bytes : 4096;
  Result<mr::Region> region =
      registrar_->register_memory(memory, mr::Access::all | access, page_bytes);
  if (!region) region = registrar_->register_memory(memory, access, page_bytes);
  if (!region) return region.error();
  made_++;
  return &insert(*region, eal ? Keeper::eal : Keeper::maker);
}

void Cover::release_unused() noexcept {
  const auto unused = [this](const std::unique_ptr<Arena>& arena) {
    if (arena->open || arena->users != 0) return false;
    if (arena->keeper != Keeper::caller) (void)registrar_->deregister(arena->region);
    if (last_ == arena.get()) last_ = nullptr;
    return true;
  };
  arenas_.erase(std::remove_if(arenas_.begin(), arenas_.end(), unused), arenas_.end());
}

}  // namespace kilim::inline v1::relaxed
