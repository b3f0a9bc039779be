// SPDX-License-Identifier: BSD-3-Clause
// Cover: the arenas over which relaxed regions can be made, each a registered region. An arena is
// the caller's, or it is registered when a region is asked for that no arena contains. Owner: the
// worker of the relaxed regions. find() never allocates, blocks or logs; everything else may, as
// registering is a system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/mr/region.hh"
#include "kilim/detail/mr/registrar.hh"

namespace kilim::inline v1::relaxed {

// Who guarantees that an arena's addresses keep the memory that was registered.
enum class Keeper : uint8_t {
  caller,  // the caller, whose region it is
  eal,     // EAL: the arena is used until withdraw(), or until EAL frees memory
  device,  // the device: the whole address space on demand
  maker,   // the relaxed region that it was registered for: the arena closes with it
};

// A registered region over which relaxed regions are made.
struct Arena {
  mr::Region region;
  Keeper keeper = Keeper::caller;
  bool open = true;    // new regions may be made over it
  uint32_t users = 0;  // relaxed regions over it whose keys are not known to be invalid
  // Rights that a request must contain. In a writable on-demand arena the device maps every page
  // for writing, so read-only memory needs an arena without that right.
  uint32_t least = 0;

  [[nodiscard]] bool serves(uint64_t address, uint64_t bytes, uint32_t access) const noexcept {
    return open && region.covers(address, bytes) &&
           ((access & ~region.access) | (least & ~access)) == 0;
  }
};

class Cover {
 public:
  // `registrar` registers further arenas; null: only the caller's regions are used. Used by one
  // thread at a time.
  explicit Cover(mr::Registrar* registrar) noexcept : registrar_(registrar) {}
  Cover(const Cover&) = delete;
  Cover& operator=(const Cover&) = delete;
  // Deregisters the arenas that were registered here.
  ~Cover();

  // Adds a region of the caller's, which stays registered until withdraw() returns true. EINVAL: it
  // is empty or wraps.
  Status add(const mr::Region& region);
  // Closes the arena of this region; others that begin at the same page stay open. True: no relaxed
  // region uses it any more.
  bool withdraw(const mr::Region& region) noexcept;

  // An open arena that contains [address, address + bytes) and has these rights; nullptr: none.
  [[nodiscard]] Arena* find(uint64_t address, uint64_t bytes, uint32_t access) noexcept {
    if (last_ != nullptr && last_->serves(address, bytes, access)) [[likely]]
      return last_;
    return search(address, bytes, access);
  }
  // Makes the whole address space an on-demand arena, one writable and one read-only. Nothing is
  // pinned; the first access to a page costs a fault, and unmapped memory is an error of the
  // access. EOPNOTSUPP: the device cannot page for these `uses`; Region::usable() asks for others.
  Status add_implicit(std::span<const mr::OdpUse> uses);
  // If EAL has freed memory, closes all arenas of EAL's memory, as other memory may be mapped there
  // now. Called before a registration and once a round. Memory that EAL frees and allocates again
  // within one round is the caller's to withdraw().
  void follow_eal() noexcept;
  // Registers an arena around `pages`: EAL's whole contiguous run of memory, of other memory just
  // these pages. ENOENT: there is no registrar; or the registrar's error.
  Result<Arena*> make(std::span<std::byte> pages, uint32_t access);
  // Allows no new regions over the arena, and removes it when it has no users.
  void close(Arena& arena) noexcept {
    arena.open = false;
    release_unused();
  }
  // Removes closed arenas without users; deregisters those that were registered here.
  void release_unused() noexcept;

  // Arenas registered here since the start, and arenas of now.
  [[nodiscard]] uint32_t made() const noexcept { return made_; }
  [[nodiscard]] std::size_t size() const noexcept { return arenas_.size(); }

 private:
  [[gnu::noinline]] Arena* search(uint64_t address, uint64_t bytes, uint32_t access) noexcept;
  Arena& insert(const mr::Region& region, Keeper keeper);

  mr::Registrar* registrar_;
  std::vector<std::unique_ptr<Arena>> arenas_;  // sorted by address; they may overlap
  Arena* last_ = nullptr;                       // the result of the last find()
  uint64_t longest_ = 0;                        // bytes of the longest arena so far
  uint32_t made_ = 0;
  uint64_t eal_losses_ = 0;  // eal_losses() at the last follow_eal()
};

}  // namespace kilim::inline v1::relaxed
