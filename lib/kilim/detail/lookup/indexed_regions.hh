// SPDX-License-Identifier: BSD-3-Clause
// IndexedRegions: EAL's memory, registered and in an index. Memory that EAL adds is in the index
// before the allocation returns. Memory that EAL frees leaves the index, then its readers are
// awaited, then it is deregistered. If the wait takes too long, the region stays registered until
// later. Owner: the control lcore. EAL's events arrive on the thread that allocates or frees; if
// that is a reader of the index, it goes offline meanwhile, or it would wait for itself.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "kilim/detail/base/counter.hh"
#include "kilim/detail/base/result.hh"
#include "kilim/detail/lookup/index.hh"
#include "kilim/detail/mr/eal_regions.hh"
#include "kilim/detail/mr/registrar.hh"

namespace kilim::inline v1::lookup {

class IndexedRegions {
 public:
  struct Config {
    uint32_t access = mr::Access::all;
    uint32_t patience_ms = 1000;  // longest wait for readers; EAL's allocations wait as long
  };

  // Registers EAL's memory and adds it to the index, which outlives it and is changed only by this
  // object. Control lcore. Errors: those of mr::EalRegions::create().
  static Result<std::unique_ptr<IndexedRegions>> create(mr::Registrar& registrar, Index& index,
                                                        const Config& config);
  static Result<std::unique_ptr<IndexedRegions>> create(mr::Registrar& registrar, Index& index) {
    return create(registrar, index, Config{});
  }
  IndexedRegions(const IndexedRegions&) = delete;
  IndexedRegions& operator=(const IndexedRegions&) = delete;

  [[nodiscard]] mr::EalRegions& eal() noexcept { return *eal_; }
  // Regions of EAL's memory that are registered but that the index had no memory for.
  [[nodiscard]] uint64_t not_indexed() const noexcept { return not_indexed_.read(); }

  // Index::add() and so on for other memory, under the lock that EAL's events take.
  Status add(const mr::Region& region);
  Status remove(Lkey key);
  [[nodiscard]] bool gone(Lkey key);

 private:
  IndexedRegions(Index& index, uint32_t patience_ms) noexcept
      : index_(index), patience_ms_(patience_ms) {}
  [[nodiscard]] bool wait_gone(Lkey key);
  [[nodiscard]] mr::EalRegions::Listener listener() noexcept;

  Index& index_;
  const uint32_t patience_ms_;
  std::mutex mutex_;  // guards changes of the index; locked after EAL's lock and EalRegions' mutex
  Counter not_indexed_;
  std::unique_ptr<mr::EalRegions> eal_;  // destroyed first: its destructor calls back
};

}  // namespace kilim::inline v1::lookup
