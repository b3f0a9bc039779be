// SPDX-License-Identifier: BSD-3-Clause
// EalRegions: keeps all of EAL's memory registered. Memory that EAL adds is registered before the
// allocation returns; memory that EAL frees is deregistered before it is unmapped.
// Owner: the control lcore. EAL's events arrive on the thread that allocates, so a mutex guards the
// regions. Without hugepages EAL sends no events: then only the memory at create() is registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/mr/registrar.hh"

namespace kilim::inline v1::mr {

class EalRegions {
 public:
  // Callbacks for an index of the regions, on the thread that allocates or frees. They must not
  // allocate from EAL.
  struct Listener {
    void* arg = nullptr;
    void (*added)(void* arg, const Region& region) = nullptr;
    void (*removed)(void* arg, const Region& region) = nullptr;
    // Called after removed(); may wait. True: nobody can use the key any more. False: the region
    // stays registered, and the question is repeated when memory is next freed and in the
    // destructor.
    bool (*gone)(void* arg, const Region& region) = nullptr;
  };
  struct Counts {
    uint64_t registered = 0;    // regions, since create()
    uint64_t deregistered = 0;  // likewise
    uint64_t failed = 0;        // ranges that could not be registered
    uint64_t late = 0;          // times that memory was freed while its region stayed, by gone()
  };

  // Registers all memory that EAL has now, with these Access bits, and subscribes to EAL's events.
  // `registrar` outlives it. Error: the registrar's, and nothing stays registered.
  static Result<std::unique_ptr<EalRegions>> create(Registrar& registrar, uint32_t access,
                                                    const Listener& listener);
  static Result<std::unique_ptr<EalRegions>> create(Registrar& registrar, uint32_t access) {
    return create(registrar, access, Listener{});
  }
  // Deregisters everything, also what gone() said is still used.
  ~EalRegions();
  EalRegions(const EalRegions&) = delete;
  EalRegions& operator=(const EalRegions&) = delete;

  // True: EAL reports allocations and frees.
  [[nodiscard]] bool follows() const noexcept { return follows_; }
  // The regions of now, in the order of addresses. Any thread.
  [[nodiscard]] std::vector<Region> regions() const;
  [[nodiscard]] Counts counts() const noexcept {
    return {registered_.read(), deregistered_.read(), failed_.read(), late_.read()};
  }

  // Handle EAL's memory events; EAL's memory lock is held. Where only a part of a region is freed,
  // the rest is registered first, as regions with new keys.
  void appeared(std::span<std::byte> memory);
  void vanishing(std::span<std::byte> memory);

 private:
  EalRegions(Registrar& registrar, uint32_t access, const Listener& listener) noexcept
      : registrar_(registrar), access_(access), listener_(listener) {}
  Status add(std::span<std::byte> memory, uint64_t page_bytes);
  void leave(const Region& region);
  void settle();
  void deregister(const Region& region);

  Registrar& registrar_;
  const uint32_t access_;
  const Listener listener_;
  bool follows_ = false;
  mutable std::mutex mutex_;
  std::map<uint64_t, Region> regions_;  // by address
  std::vector<Region> leaving_;         // removed() was called, not yet deregistered; oldest first
  Counter registered_, deregistered_, failed_, late_;
};

}  // namespace kilim::inline v1::mr
