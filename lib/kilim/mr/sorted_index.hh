// SPDX-License-Identifier: BSD-3-Clause
// Address to region for memory that lies anywhere: regions sorted by address, found by bisection.
// Owner: one thread changes it; readers need it quiet. Regions must not overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/mr/region.hh"

namespace kilim::mr {

class SortedIndex {
 public:
  // EEXIST where it overlaps a region that is there, EINVAL for an empty or wrapping one.
  Status add(const Region& region);
  // The region that begins at `address`; ENOENT where there is none.
  Status remove(uint64_t address);

  // The region that covers all of [address, address + bytes), or nullptr.
  [[nodiscard]] const Region* find(uint64_t address, uint64_t bytes) const noexcept {
    std::size_t low = 0;
    std::size_t n = starts_.size();
    while (n > 1) {
      const std::size_t half = n / 2;
      low = starts_[low + half] <= address ? low + half : low;
      n -= half;
    }
    return n != 0 && regions_[low].covers(address, bytes) ? &regions_[low] : nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return regions_.size(); }

 private:
  [[nodiscard]] std::size_t place_of(uint64_t address) const noexcept;
  std::vector<uint64_t> starts_;  // of regions_, close together for the search
  std::vector<Region> regions_;
};

}  // namespace kilim::mr
