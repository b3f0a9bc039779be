// SPDX-License-Identifier: BSD-3-Clause
// The memory behind a direct key with on-demand paging: its page table, and what happened to it.
// Owner: its key; made and unmade by the control path under the adapter's lock. Fields that
// invalidations change are under the page lock.
#pragma once

#include <cstdint>

#include "vhca/tpt/page_events.hh"
#include "vhca/tpt/page_table.hh"

namespace kilim::vhca::tpt {

class Paging;

struct PagedRegion final : WatchedRange {
  struct Shape {
    uint64_t va = 0, bytes = 0;  // implicit: 0 and UINT64_MAX
    bool writable = false;       // some right to write was asked for
    uint64_t unit = PageRange::page_bytes;
  };
  PagedRegion(Paging&, const Shape&);
  ~PagedRegion() override;

  void invalidated(const PageRange&) noexcept override;

  // Between begin() and end() the pages of `at` are being brought in. end(): false if one of them
  // was invalidated meanwhile. Page lock held.
  void begin(const PageRange& at) noexcept {
    coming = at;
    disturbed = false;
  }
  bool end() noexcept {
    coming = {};
    return !disturbed;
  }

  Paging& paging;
  const Shape shape;
  PageTable table;
  PageRange coming;
  bool disturbed = false;
};

}  // namespace kilim::vhca::tpt
