// SPDX-License-Identifier: BSD-3-Clause
// ListMemory: registered memory for lists by pointer, used as a ring: lists are released in the
// order of their allocation, once the UMRs that read them have completed. Made at set-up over a
// region. Owner: one worker. Never allocates from a heap, blocks or logs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/assert.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/owner.hh"
#include "kilim/detail/base/units.hh"
#include "kilim/detail/mr/region.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::inline v1::umr {

// A list in registered memory, or memory for one.
struct StoredList {
  std::byte* memory = nullptr;  // in this process; null: the list memory is full
  uint64_t address = 0;         // under `key`; a multiple of 2048
  Lkey key;
  uint32_t octowords = 0;  // padding included
  uint64_t length = 0;     // bytes of a key with this list
};

class ListMemory {
 public:
  static constexpr uint32_t unit_bytes = prm::umr::list_alignment;
  static constexpr uint32_t unit_octowords = unit_bytes / octoword_bytes;

  // Uses the region's whole units of 2048 bytes, aligned by the region's iova. The region outlives
  // the ListMemory.
  explicit ListMemory(const mr::Region& region) noexcept : key_(region.lkey) {
    const uint64_t skip = -region.iova % unit_bytes;
    if (skip >= region.length) return;
    memory_ = reinterpret_cast<std::byte*>(region.address + skip);
    address_ = region.iova + skip;
    units_ = (region.length - skip) / unit_bytes;
  }

  // Octowords of the longest list that can ever be allocated.
  [[nodiscard]] uint64_t capacity_octowords() const noexcept { return units_ * unit_octowords; }
  // Contiguous memory for a list of so many octowords; memory == nullptr: there is too little.
  [[nodiscard]] StoredList allocate(uint32_t octowords) noexcept {
    owner_.check();
    const uint64_t units = (uint64_t{octowords} + unit_octowords - 1) / unit_octowords;
    if (head_ == tail_ && units_ != 0)  // empty: start at the front, so that any list fits
      head_ = tail_ = (head_ + units_ - 1) / units_ * units_;
    const uint64_t at = units_ == 0 ? 0 : head_ % units_;
    const uint64_t skipped = at + units > units_ ? units_ - at : 0;  // not across the end
    if (units == 0 || head_ - tail_ + skipped + units > units_) return {};
    head_ += skipped + units;
    const uint64_t offset = skipped != 0 ? 0 : at * unit_bytes;
    return {memory_ + offset, address_ + offset, key_, octowords, 0};
  }
  // A mark of everything allocated so far, for release() when the UMR has completed.
  [[nodiscard]] uint64_t allocated() const noexcept { return head_; }
  // Withdraws what was allocated since the mark and is not posted.
  void rewind(uint64_t allocated) noexcept {
    owner_.check();
    head_ = allocated > tail_ ? allocated : tail_;
  }
  // The address in this process of a list's address under the key.
  [[nodiscard]] std::byte* memory_at(uint64_t address) const noexcept {
    KILIM_ASSERT(address - address_ < units_ * unit_bytes);
    return memory_ + (address - address_);
  }
  // Releases everything allocated before the mark.
  void release(uint64_t allocated) noexcept {
    owner_.check();
    KILIM_ASSERT(allocated <= head_);
    if (allocated > tail_) tail_ = allocated;
  }

 private:
  std::byte* memory_ = nullptr;
  uint64_t address_ = 0;
  Lkey key_;
  uint64_t units_ = 0;
  uint64_t head_ = 0;  // in units; never wraps
  uint64_t tail_ = 0;
  Owner owner_;
};

}  // namespace kilim::inline v1::umr
