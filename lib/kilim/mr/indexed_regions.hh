// SPDX-License-Identifier: BSD-3-Clause
// All of EAL's memory registered and found by address: what EAL adds is in the index before its
// allocation returns; what it gives back leaves the index, then readers are waited for, then it is
// deregistered. A wait ends after a time: then the region stays registered until readers are over.
// Owner: the control lcore. EAL's events come on whatever thread allocates or frees; one that looks
// up too is offline as a reader meanwhile, or it waits for itself.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "kilim/base/counter.hh"
#include "kilim/base/result.hh"
#include "kilim/mr/eal_regions.hh"
#include "kilim/mr/index.hh"
#include "kilim/mr/registrar.hh"

namespace kilim::mr {

class IndexedRegions {
 public:
  struct Config {
    uint32_t access = Access::all;
    uint32_t patience_ms = 1000;  // for readers; EAL's allocations wait as long
  };

  // The index outlives it, and is changed by nobody else but through add() and remove().
  static Result<std::unique_ptr<IndexedRegions>> create(Registrar& registrar, Index& index,
                                                        const Config& config);
  static Result<std::unique_ptr<IndexedRegions>> create(Registrar& registrar, Index& index) {
    return create(registrar, index, Config{});
  }
  IndexedRegions(const IndexedRegions&) = delete;
  IndexedRegions& operator=(const IndexedRegions&) = delete;

  [[nodiscard]] EalRegions& eal() noexcept { return *eal_; }
  // Regions of EAL's memory that are registered and that the index had no room for.
  [[nodiscard]] uint64_t not_indexed() const noexcept { return not_indexed_.read(); }

  // The index's own calls for regions of other memory, which exclude EAL's events.
  Status add(const Region& region);
  Status remove(Lkey key);
  [[nodiscard]] bool gone(Lkey key);

 private:
  IndexedRegions(Index& index, uint32_t patience_ms) noexcept
      : index_(index), patience_ms_(patience_ms) {}
  [[nodiscard]] bool wait_gone(Lkey key);
  [[nodiscard]] EalRegions::Listener listener() noexcept;

  Index& index_;
  const uint32_t patience_ms_;
  std::mutex mutex_;  // the index's changes; behind EAL's lock and the kept regions'
  Counter not_indexed_;
  std::unique_ptr<EalRegions> eal_;  // ends first: it still tells
};

}  // namespace kilim::mr
