// SPDX-License-Identifier: BSD-3-Clause
// Regions with made-up keys and addresses to look up, in Kilim's index with and without an arena,
// and in the baselines. One thread. A pass over the addresses never allocates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kilim/lookup.hh"
#include "perf/compare/baselines.hh"

namespace kilim::perf {

enum class Order { sequential, random };

struct LookupShape {
  uint32_t regions = 1;
  uint64_t region_bytes = uint64_t{2} << 20;
  Order order = Order::random;
  bool overlapping = false;  // each region overlaps half of the next one

  [[nodiscard]] uint64_t address(uint64_t i) const noexcept {
    return (uint64_t{1} << 40) + i * (overlapping ? region_bytes / 2 : region_bytes);
  }
  [[nodiscard]] mr::Region region(uint32_t i) const noexcept;
};

class LookupBench {
 public:
  // Returns an empty string, or what failed.
  std::string open(const LookupShape& shape);
  // Adds every region of the shape to the registration cache; returns an empty string, or what
  // failed.
  std::string open_cache(const LookupShape& shape);

  // One pass over all addresses; returns a sum of the keys.
  [[gnu::noinline]] uint64_t flat() const noexcept;
  [[gnu::noinline]] uint64_t in_arena() const noexcept;
  [[gnu::noinline]] uint64_t elsewhere() const noexcept;
  [[gnu::noinline]] uint64_t front() noexcept;
  [[gnu::noinline]] uint64_t two_levels() const noexcept;
  [[gnu::noinline]] uint64_t cached() noexcept;
  [[nodiscard]] uint32_t addresses() const noexcept {
    return static_cast<uint32_t>(addresses_.size());
  }
  [[nodiscard]] uint64_t page_bytes() const noexcept { return elsewhere_->page_bytes(); }

 private:
  std::vector<uint64_t> addresses_;
  std::unique_ptr<lookup::Index> arena_, elsewhere_;
  std::unique_ptr<lookup::Front> front_;
  FlatArray flat_;
  std::unique_ptr<TwoLevelMap> two_levels_;
  std::unique_ptr<RegistrationCache> cache_;
};

}  // namespace kilim::perf
