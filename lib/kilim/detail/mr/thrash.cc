// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/mr/thrash.hh"

#include <algorithm>

namespace kilim::inline v1::mr {

void ThrashDetector::watch(const Region& region) {
  if (region.kind == Kind::on_demand) watched_.push_back(region);
}

void ThrashDetector::forget(const Region& region) {
  std::erase_if(watched_, [&](const Region& r) { return r.lkey == region.lkey; });
  std::erase_if(windows_, [&](const Window& w) { return w.region == region.lkey; });
}

ThrashDetector::Window* ThrashDetector::window_of(uint64_t now_ns, const FaultCount& c) {
  const auto at = std::find_if(windows_.begin(), windows_.end(),
                               [&](const Window& w) { return w.region == c.region; });
  if (at != windows_.end()) return &*at;
  windows_.push_back({c.region, now_ns, c.faults});
  return nullptr;
}

bool ThrashDetector::count(uint64_t now_ns, const FaultCount& c) {
  Window* const w = window_of(now_ns, c);
  if (w == nullptr || now_ns - w->since_ns < config_.window_ns) return false;
  const double seconds = static_cast<double>(now_ns - w->since_ns) / 1e9;
  const uint64_t faults = c.faults - std::min(c.faults, w->faults);
  const double rate =
      static_cast<double>(faults) / seconds / static_cast<double>(std::max<uint64_t>(c.regions, 1));
  *w = {c.region, now_ns, c.faults};
  if (rate <= static_cast<double>(config_.faults_per_second)) return false;
  const Verdict verdict{c.region, static_cast<uint64_t>(rate)};
  verdicts_++;
  if (config_.say != nullptr) config_.say(config_.arg, verdict);
  if (config_.fetch != nullptr) fetch(verdict);
  return true;
}

void ThrashDetector::fetch(const Verdict& verdict) {
  for (const Region& r : watched_) {
    if (verdict.region && *verdict.region != r.lkey) continue;
    (void)config_.fetch->submit({.address = r.iova,
                                 .bytes = r.length,
                                 .id = r.lkey.value(),
                                 .lkey = r.lkey,
                                 .advice = config_.advice});
  }
}

}  // namespace kilim::inline v1::mr
