// SPDX-License-Identifier: BSD-3-Clause
// Regions with made-up keys, and addresses to look up in them: in Kilim's index, with and without
// an arena, and in what it is measured against. Owner: the measurement; one thread. A pass over the
// addresses never allocates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kilim/mr/front.hh"
#include "kilim/mr/index.hh"
#include "lookup_yard.hh"

namespace kilim::perf {

enum class Order { sequential, random };

struct LookupShape {
  uint32_t regions = 1;
  uint64_t region_bytes = uint64_t{2} << 20;
  Order order = Order::random;
  bool overlapping = false;  // each region reaches over half of the next one

  [[nodiscard]] uint64_t address(uint64_t i) const noexcept {
    return (uint64_t{1} << 40) + i * (overlapping ? region_bytes / 2 : region_bytes);
  }
  [[nodiscard]] mr::Region region(uint32_t i) const noexcept;
};

class LookupBench {
 public:
  // An empty string: it worked.
  std::string open(const LookupShape& shape);
  // Every region of the shape, in the registration cache too; why not.
  std::string open_cache(const LookupShape& shape);

  // One pass over all addresses; a sum that depends on every key.
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
  std::unique_ptr<mr::Index> arena_, elsewhere_;
  std::unique_ptr<mr::Front> front_;
  FlatArray flat_;
  std::unique_ptr<TwoLevelMap> two_levels_;
  std::unique_ptr<RegistrationCache> cache_;
};

}  // namespace kilim::perf
