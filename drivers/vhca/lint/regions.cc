// SPDX-License-Identifier: BSD-3-Clause
// Ranges on the list of page_events. Adapter's lock held, but invalidated() is called on any
// thread.
#include "vhca/lint/regions.hh"

#include <algorithm>

namespace kilim::vhca::lint {

LintRegions::Region::Region(std::atomic<bool>& all_news, const tpt::Mkey& m)
    : key(m.key), news(all_news) {
  watched = tpt::PageRange::of(m.va, m.len);
  pinned = true;
  tpt::page_events::add(*this);
  tpt::page_events::watch(watched);
}

LintRegions::Region::~Region() {
  tpt::page_events::remove(*this);
}

void LintRegions::Region::invalidated(const tpt::PageRange& r) noexcept {
  for (tpt::PageRange& g : gone) {
    const bool joins = r.start <= g.end && g.start <= r.end;
    if (!g.empty() && !joins && &g != &gone.back()) continue;
    g = g.empty() ? r : tpt::PageRange{std::min(g.start, r.start), std::max(g.end, r.end)};
    break;
  }
  news.store(true, std::memory_order_release);
}

uint64_t LintRegions::Region::pop_news() noexcept {
  const tpt::PageLock lock;
  if (told || gone[0].empty()) return 0;
  told = true;
  return gone[0].start;
}

void LintRegions::add(const tpt::Mkey& m) {
  regions_.erase(m.index());
  if (m.mode != tpt::KeyMode::direct || m.paged != nullptr || m.len == 0) return;
  regions_.emplace(m.index(), std::make_unique<Region>(news_, m));
}

uint64_t LintRegions::lost(uint32_t index, uint64_t va, uint64_t bytes) const noexcept {
  const auto found = regions_.find(index);
  if (found == regions_.end()) return 0;
  const tpt::PageRange asked = tpt::PageRange::of(va, bytes);
  const tpt::PageLock lock;
  for (const tpt::PageRange& g : found->second->gone) {
    if (!g.empty() && g.meets(asked)) return std::max(g.start, va);
  }
  return 0;
}

}  // namespace kilim::vhca::lint
