// SPDX-License-Identifier: BSD-3-Clause
// Ranges on the list of page_events. Adapter's lock held, but invalidated() is called on any
// thread.
#include "vhca/lint/regions.hh"

#include <algorithm>

namespace kilim::vhca {

LintRegions::Region::Region(std::atomic<bool>& all_news, const Mkey& m)
    : key(m.key), news(all_news) {
  watched = PageRange::of(m.va, m.len);
  pinned = true;
  page_events::add(*this);
  page_events::watch(watched);
}

LintRegions::Region::~Region() {
  page_events::remove(*this);
}

void LintRegions::Region::invalidated(const PageRange& r) noexcept {
  for (PageRange& g : gone) {
    const bool joins = r.start <= g.end && g.start <= r.end;
    if (!g.empty() && !joins && &g != &gone.back()) continue;
    g = g.empty() ? r : PageRange{std::min(g.start, r.start), std::max(g.end, r.end)};
    break;
  }
  news.store(true, std::memory_order_release);
}

uint64_t LintRegions::Region::pop_news() noexcept {
  const PageLock lock;
  if (told || gone[0].empty()) return 0;
  told = true;
  return gone[0].start;
}

void LintRegions::add(const Mkey& m) {
  regions_.erase(m.index());
  if (m.mode != KeyMode::direct || m.paged != nullptr || m.len == 0) return;
  regions_.emplace(m.index(), std::make_unique<Region>(news_, m));
}

uint64_t LintRegions::lost(uint32_t index, uint64_t va, uint64_t bytes) const noexcept {
  const auto found = regions_.find(index);
  if (found == regions_.end()) return 0;
  const PageRange asked = PageRange::of(va, bytes);
  const PageLock lock;
  for (const PageRange& g : found->second->gone) {
    if (!g.empty() && g.meets(asked)) return std::max(g.start, va);
  }
  return 0;
}

}  // namespace kilim::vhca
