// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/mr/sorted_index.hh"

#include <algorithm>
#include <cerrno>

namespace kilim::mr {

std::size_t SortedIndex::place_of(uint64_t address) const noexcept {
  return static_cast<std::size_t>(std::lower_bound(starts_.begin(), starts_.end(), address) -
                                  starts_.begin());
}

Status SortedIndex::add(const Region& region) {
  if (region.length == 0 || region.address + (region.length - 1) < region.address)
    return Error{EINVAL, "the region is empty or wraps"};
  const std::size_t at = place_of(region.address);
  const uint64_t last = region.address + (region.length - 1);
  const bool hits_next = at < starts_.size() && starts_[at] <= last;
  const bool hits_previous = at > 0 && region.address - starts_[at - 1] < regions_[at - 1].length;
  if (hits_next || hits_previous) return Error{EEXIST, "the region overlaps one in the index"};
  const auto offset = static_cast<std::ptrdiff_t>(at);
  starts_.insert(starts_.begin() + offset, region.address);
  regions_.insert(regions_.begin() + offset, region);
  return Done{};
}

Status SortedIndex::remove(uint64_t address) {
  const std::size_t at = place_of(address);
  if (at == starts_.size() || starts_[at] != address)
    return Error{ENOENT, "no region of the index begins at this address"};
  const auto offset = static_cast<std::ptrdiff_t>(at);
  starts_.erase(starts_.begin() + offset);
  regions_.erase(regions_.begin() + offset);
  return Done{};
}

}  // namespace kilim::mr
