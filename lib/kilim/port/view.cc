// SPDX-License-Identifier: BSD-3-Clause
// A port's view of itself for others. A thread that is neither a worker nor the control lcore reads
// here, so everything is a counter, a flag, or under the port's lock.
#include "kilim/port/view.hh"

#include <algorithm>

#include "kilim/port/port.hh"

namespace kilim::port {

PortView Port::view() {
  const std::lock_guard lock{shape_};
  PortView v{.name = parts_.name,
             .device = parts_.device->name(),
             .number = parts_.number,
             .started = started_,
             .info = info_,
             .sizes = rx_.empty() ? parts_.defaults : sizes_,
             .stats = stats(),
             .filter = filter_,
             .rss = rss_};
  v.stats.rx_missed = missed_.read(parts_.device->out_of_buffer(parts_.number));
  if (!started_) return v;
  for (uint32_t q = 0; q < rx_.size(); q++) v.rx.push_back(rx_stats(q));
  for (uint32_t q = 0; q < tx_.size(); q++) v.tx.push_back(tx_stats(q));
  for (const auto& [id, rules] : rules_) {
    RuleView& r = v.rules.emplace_back(RuleView{id, std::nullopt});
    if (auto count = rules.query()) r.count = *count;
  }
  std::sort(v.rules.begin(), v.rules.end(),
            [](const RuleView& a, const RuleView& b) { return a.id < b.id; });
  return v;
}

}  // namespace kilim::port
