// SPDX-License-Identifier: BSD-3-Clause
// The adapter's own page table of one region with on-demand paging: a byte for each page of 4096
// bytes says whether the adapter may read and write it. Owner: its region; calls under the page
// lock (page_events.hh) but for those that say otherwise. Never touches client memory.
#pragma once

#include <cstdint>

namespace kilim::vhca::tpt {

// Pages of client memory, from the one of `start` up to the one before `end`.
struct PageRange {
  uint64_t start = 0, end = 0;  // multiples of the page size

  static constexpr uint64_t page_bytes = 4096;
  // The pages that [va, va + bytes) touches; `unit` is a power of two, one page or more.
  static constexpr PageRange of(uint64_t va, uint64_t bytes, uint64_t unit = page_bytes) noexcept {
    uint64_t last = va + (bytes != 0 ? bytes - 1 : 0);
    if (last < va) last = UINT64_MAX;
    return {va & ~(unit - 1), (last | (unit - 1)) + 1};
  }
  // An empty one where `end` has wrapped.
  [[nodiscard]] constexpr bool empty() const noexcept { return end <= start; }
  [[nodiscard]] constexpr uint64_t pages() const noexcept { return (end - start) / page_bytes; }
  [[nodiscard]] constexpr bool meets(const PageRange& o) const noexcept {
    return start < o.end && o.start < end;
  }
  [[nodiscard]] constexpr PageRange within(const PageRange& o) const noexcept {
    return {start > o.start ? start : o.start, end < o.end ? end : o.end};
  }
};

class PageTable {
 public:
  static constexpr uint8_t present = 1, writable = 2;

  // A table of the whole range, empty. Without the lock; memory for a part of it is taken by
  // reserve().
  explicit PageTable(PageRange);
  ~PageTable();
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  [[nodiscard]] const PageRange& range() const noexcept { return range_; }
  [[nodiscard]] bool covers(const PageRange& r) const noexcept {
    return !r.empty() && r.start >= range_.start && r.end <= range_.end;
  }
  // Memory for this part of the table, with the adapter's lock and without the page lock, which it
  // takes itself: it may allocate. False: out of memory.
  bool reserve(const PageRange&) noexcept;

  // The three below: the range is covered.
  // Whether each page has these rights.
  [[nodiscard]] bool holds(const PageRange&, uint8_t rights) const noexcept;
  // Gives each page these rights, no others; how many were not there before. The part is reserved.
  uint64_t set(const PageRange&, uint8_t rights) noexcept;
  // Takes the pages away; how many were there.
  uint64_t clear(const PageRange&) noexcept;

 private:
  // What one part of the table covers. A region rarely has more than one.
  static constexpr uint64_t part_bytes = uint64_t{1} << 30;
  static constexpr uint64_t part_pages = part_bytes / PageRange::page_bytes;
  [[nodiscard]] uint64_t part_of(uint64_t va) const noexcept {
    return (va - range_.start) / part_bytes;
  }
  // f(bytes of the table or null, how many pages), part by part.
  template <typename F>
  void walk(const PageRange&, F) const noexcept;

  PageRange range_;
  uint64_t parts_ = 0;
  uint8_t** part_ = nullptr;
};

}  // namespace kilim::vhca::tpt
