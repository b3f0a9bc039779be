// SPDX-License-Identifier: BSD-3-Clause
// The memory over which relaxed regions can be made: arenas, each under one key of its own. An
// arena is the caller's, or it is registered when memory is asked for that no arena covers.
// Owner: the worker of the relaxed regions. find() never allocates, blocks or logs; everything else
// is set-up, and registering is a call of the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/mr/region.hh"
#include "kilim/mr/registrar.hh"

namespace kilim::relaxed {

// Who answers for it that an arena's memory stays what it was when it was registered.
enum class Keeper : uint8_t {
  caller,  // its region is the caller's too
  eal,     // EAL holds the memory; registered here, until it is withdrawn or EAL gives memory back
  device,  // the whole address space on demand: the device follows what is mapped
  maker,   // the region for which it was registered: with it the arena closes
};

struct Arena {
  mr::Region region;
  Keeper keeper = Keeper::caller;
  bool open = true;    // takes new regions
  uint32_t users = 0;  // relaxed regions through whose key some of it can be reached
  // Rights that a request has to ask for. A device brings pages of an arena that it may write in
  // for writing, whatever comes: memory that can only be read needs one that it may not.
  uint32_t least = 0;

  [[nodiscard]] bool serves(uint64_t address, uint64_t bytes, uint32_t access) const noexcept {
    return open && region.covers(address, bytes) &&
           ((access & ~region.access) | (least & ~access)) == 0;
  }
};

class Cover {
 public:
  // `registrar` makes arenas for memory that has none; null: there are only the caller's. It is for
  // one thread at a time.
  explicit Cover(mr::Registrar* registrar) noexcept : registrar_(registrar) {}
  Cover(const Cover&) = delete;
  Cover& operator=(const Cover&) = delete;
  // Deregisters what was registered here.
  ~Cover();

  // A region of the caller's, who keeps it until it has been withdrawn and nobody uses it.
  Status add(const mr::Region& region);
  // The arenas that begin at `address` take no new regions. True: nobody uses them any more.
  bool withdraw(uint64_t address) noexcept;

  // An arena with all of [address, address + bytes) and these rights, or nullptr.
  [[nodiscard]] Arena* find(uint64_t address, uint64_t bytes, uint32_t access) noexcept {
    if (last_ != nullptr && last_->serves(address, bytes, access)) [[likely]]
      return last_;
    return search(address, bytes, access);
  }
  // The whole address space becomes an arena, on demand, for whoever writes and another for whoever
  // only reads; EOPNOTSUPP where the device cannot. Nothing is pinned then, a first access to a
  // page costs a fault, memory that is not mapped is found out by its use, and the regions are good
  // for what the device pages and no more: `uses` says what they are for, Region::usable() asks.
  Status add_implicit(std::span<const mr::OdpUse> uses);
  // Where EAL has given memory back, arenas of EAL's memory take no new regions: what is mapped in
  // their place may be other memory. Before a region is registered, or once a round: what EAL frees
  // and hands out again within a round of the worker's is then the caller's to withdraw().
  void follow_eal() noexcept;
  // Registers one; memory of EAL as far as EAL holds it in one run, else just these pages.
  Result<Arena*> make(std::span<std::byte> pages, uint32_t access);
  void close(Arena& arena) noexcept {
    arena.open = false;
    release_unused();
  }
  // Forgets arenas that are closed and not used, and deregisters what was registered here.
  void release_unused() noexcept;

  [[nodiscard]] uint32_t made() const noexcept { return made_; }
  [[nodiscard]] std::size_t size() const noexcept { return arenas_.size(); }

 private:
  [[gnu::noinline]] Arena* search(uint64_t address, uint64_t bytes, uint32_t access) noexcept;
  Arena& insert(const mr::Region& region, Keeper keeper);

  mr::Registrar* registrar_;
  std::vector<std::unique_ptr<Arena>> arenas_;  // by address; one may lie in another
  Arena* last_ = nullptr;                       // that served
  uint64_t longest_ = 0;                        // of all that ever were
  uint32_t made_ = 0;
  uint64_t eal_losses_ = 0;  // known
};

}  // namespace kilim::relaxed
