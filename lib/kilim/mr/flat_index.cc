// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/mr/flat_index.hh"

#include <cerrno>

namespace kilim::mr {

Result<FlatIndex> FlatIndex::create(uint64_t base, uint64_t bytes, uint64_t block_bytes) {
  if (!std::has_single_bit(block_bytes)) return Error{EINVAL, "block size is not a power of two"};
  if (bytes == 0 || base + bytes < base)
    return Error{EINVAL, "the arena's range is empty or wraps"};
  FlatIndex index;
  index.base_ = base;
  index.shift_ = static_cast<unsigned>(std::countr_zero(block_bytes));
  index.blocks_ = (bytes + block_bytes - 1) >> index.shift_;
  index.keys_ = std::make_unique<Lkey[]>(index.blocks_);
  return index;
}

Status FlatIndex::add(const Region& region) noexcept {
  const uint64_t offset = region.address - base_;
  const uint64_t below_block = (uint64_t{1} << shift_) - 1;
  if (((offset | region.length) & below_block) != 0)
    return Error{EINVAL, "the region does not lie on the arena's block borders"};
  const uint64_t first = offset >> shift_;
  const uint64_t count = region.length >> shift_;
  if (count == 0 || first >= blocks_ || count > blocks_ - first)
    return Error{EINVAL, "the region lies outside the arena"};
  fill(region, region.lkey);
  return Done{};
}

void FlatIndex::remove(const Region& region) noexcept {
  fill(region, Lkey{0});
}

void FlatIndex::fill(const Region& region, Lkey key) noexcept {
  const uint64_t first = (region.address - base_) >> shift_;
  const uint64_t count = region.length >> shift_;
  for (uint64_t i = 0; i < count && first + i < blocks_; i++) keys_[first + i] = key;
}

}  // namespace kilim::mr
