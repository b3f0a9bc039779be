// SPDX-License-Identifier: BSD-3-Clause
// Address to key for one reserved arena: a table with one key for each block of the arena.
// Filled at set-up by its owner, then read by any thread. Lookup never allocates, blocks or fails
// loudly: an address without a key gives key 0.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>

#include "kilim/base/assert.hh"
#include "kilim/base/ident.hh"
#include "kilim/base/result.hh"
#include "kilim/mr/region.hh"

namespace kilim::mr {

class FlatIndex {
 public:
  // `block_bytes` is a power of two; regions that are added lie on its multiples from `base`.
  static Result<FlatIndex> create(uint64_t base, uint64_t bytes, uint64_t block_bytes);

  // EINVAL where the region does not begin and end on block borders inside the arena.
  Status add(const Region& region) noexcept;
  void remove(const Region& region) noexcept;

  // The key for local use of the byte at `address`.
  [[nodiscard]] Lkey find(uint64_t address) const noexcept {
    const uint64_t block = (address - base_) >> shift_;
    return block < blocks_ ? keys_[block] : Lkey{0};
  }
  [[nodiscard]] const Lkey* keys() const noexcept { return keys_.get(); }
  [[nodiscard]] uint64_t base() const noexcept { return base_; }
  [[nodiscard]] unsigned block_shift() const noexcept { return shift_; }

 private:
  FlatIndex() = default;
  void fill(const Region& region, Lkey key) noexcept;
  uint64_t base_ = 0;
  uint64_t blocks_ = 0;
  unsigned shift_ = 0;
  std::unique_ptr<Lkey[]> keys_;
};

}  // namespace kilim::mr
