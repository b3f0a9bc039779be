// SPDX-License-Identifier: BSD-3-Clause
// Registered memory for lists by pointer: a ring from which lists are taken in order and given back
// in order, once the UMRs that read them have completed. Made at set-up over a region.
// Owner: one worker. Never allocates, blocks or logs; full is an answer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/assert.hh"
#include "kilim/base/ident.hh"
#include "kilim/base/owner.hh"
#include "kilim/base/units.hh"
#include "kilim/mr/region.hh"
#include "kilim/prm/umr_seg.hh"

namespace kilim::umr {

// A list that lies in registered memory, or room for one.
struct StoredList {
  std::byte* memory = nullptr;  // in this process; null: there was no room
  uint64_t address = 0;         // under `key`; a multiple of 2048
  Lkey key;
  uint32_t octowords = 0;  // padding included
  uint64_t length = 0;     // bytes that a key with this list shows
};

class ListMemory {
 public:
  static constexpr uint32_t unit_bytes = prm::umr::list_alignment;
  static constexpr uint32_t unit_octowords = unit_bytes / octoword_bytes;

  // Uses the whole units of the region, as its key knows them; the region outlives the memory.
  explicit ListMemory(const mr::Region& region) noexcept : key_(region.lkey) {
    const uint64_t skip = -region.iova % unit_bytes;
    if (skip >= region.length) return;
    memory_ = reinterpret_cast<std::byte*>(region.address + skip);
    address_ = region.iova + skip;
    units_ = (region.length - skip) / unit_bytes;
  }

  // The longest list that can ever be taken.
  [[nodiscard]] uint64_t capacity_octowords() const noexcept { return units_ * unit_octowords; }
  // Room for a list of so many octowords, in one piece.
  [[nodiscard]] StoredList take(uint32_t octowords) noexcept {
    owner_.check();
    const uint64_t units = (uint64_t{octowords} + unit_octowords - 1) / unit_octowords;
    if (head_ == tail_ && units_ != 0)  // empty: from the beginning, so that any list fits
      head_ = tail_ = (head_ + units_ - 1) / units_ * units_;
    const uint64_t at = units_ == 0 ? 0 : head_ % units_;
    const uint64_t skipped = at + units > units_ ? units_ - at : 0;  // not across the end
    if (units == 0 || head_ - tail_ + skipped + units > units_) return {};
    head_ += skipped + units;
    const uint64_t offset = skipped != 0 ? 0 : at * unit_bytes;
    return {memory_ + offset, address_ + offset, key_, octowords, 0};
  }
  // Everything that was taken until now: remember it beside the wr id of the UMR...
  [[nodiscard]] uint64_t taken() const noexcept { return head_; }
  // Nothing that was taken since then is going to be used.
  void rewind(uint64_t taken) noexcept {
    owner_.check();
    head_ = taken > tail_ ? taken : tail_;
  }
  // The bytes of a list in this process, by its address under the key.
  [[nodiscard]] std::byte* memory_at(uint64_t address) const noexcept {
    KILIM_ASSERT(address - address_ < units_ * unit_bytes);
    return memory_ + (address - address_);
  }
  // ...and give it back when that has completed. What was taken before goes back too.
  void release(uint64_t taken) noexcept {
    owner_.check();
    KILIM_ASSERT(taken <= head_);
    if (taken > tail_) tail_ = taken;
  }

 private:
  std::byte* memory_ = nullptr;
  uint64_t address_ = 0;
  Lkey key_;
  uint64_t units_ = 0;
  uint64_t head_ = 0;  // in units, running freely
  uint64_t tail_ = 0;
  [[no_unique_address]] Owner owner_;
};

}  // namespace kilim::umr
