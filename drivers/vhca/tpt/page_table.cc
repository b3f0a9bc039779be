// SPDX-License-Identifier: BSD-3-Clause
// Parts of the table are made when the first of their pages is wanted.
#include "vhca/tpt/page_table.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "vhca/tpt/page_events.hh"

namespace kilim::vhca::tpt {

PageTable::PageTable(PageRange range) : range_(range), parts_(part_of(range.end - 1) + 1) {
  part_ = static_cast<uint8_t**>(std::calloc(parts_, sizeof(uint8_t*)));
}

PageTable::~PageTable() {
  for (uint64_t i = 0; part_ != nullptr && i < parts_; i++) std::free(part_[i]);
  std::free(static_cast<void*>(part_));
}

bool PageTable::reserve(const PageRange& r) noexcept {
  if (part_ == nullptr) return false;
  for (uint64_t i = part_of(r.start); i <= part_of(r.end - 1); i++) {
    if (part_[i] != nullptr) continue;
    uint64_t pages = std::min(part_pages, range_.pages() - i * part_pages);
    auto* part = static_cast<uint8_t*>(std::calloc(pages, 1));
    if (part == nullptr) return false;
    const PageLock lock;
    part_[i] = part;
  }
  return true;
}

template <typename F>
void PageTable::walk(const PageRange& r, F f) const noexcept {
  if (part_ == nullptr) return;
  for (uint64_t at = r.start; at < r.end;) {
    uint64_t in_part = (at - range_.start) % part_bytes;
    uint64_t behind = at + std::min(r.end - at, part_bytes - in_part);
    uint8_t* part = part_[part_of(at)];
    f(part == nullptr ? nullptr : part + in_part / PageRange::page_bytes,
      (behind - at) / PageRange::page_bytes);
    at = behind;
  }
}

bool PageTable::holds(const PageRange& r, uint8_t rights) const noexcept {
  bool all = part_ != nullptr;
  walk(r, [&](const uint8_t* pages, uint64_t n) {
    all = all && pages != nullptr &&
          std::all_of(pages, pages + n, [=](uint8_t p) { return (p & rights) == rights; });
  });
  return all;
}

uint64_t PageTable::set(const PageRange& r, uint8_t rights) noexcept {
  uint64_t came = 0;
  walk(r, [&](uint8_t* pages, uint64_t n) {
    came += static_cast<uint64_t>(std::count(pages, pages + n, uint8_t{0}));
    std::memset(pages, rights, n);
  });
  return came;
}

uint64_t PageTable::clear(const PageRange& r) noexcept {
  uint64_t went = 0;
  walk(r, [&](uint8_t* pages, uint64_t n) {
    if (pages == nullptr) return;
    auto there = n - static_cast<uint64_t>(std::count(pages, pages + n, uint8_t{0}));
    if (there != 0) std::memset(pages, 0, n);
    went += there;
  });
  return went;
}

}  // namespace kilim::vhca::tpt
