// SPDX-License-Identifier: BSD-3-Clause
// What a port looks like at one moment: values that Port::view() fills, for telemetry and reports.
// Counters are read one after the other while workers add to them, so sums may differ by what came
// between. Pure values, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kilim/detail/device/caps.hh"
#include "kilim/detail/flow/filter.hh"
#include "kilim/detail/flow/rss.hh"
#include "kilim/detail/flow/rule.hh"
#include "kilim/detail/port/queues.hh"
#include "kilim/detail/port/stats.hh"

namespace kilim::inline v1::port {

struct RuleView {
  uint32_t id = 0;                   // RuleId
  std::optional<flow::Count> count;  // of a rule that counts
};

struct PortView {
  std::string name;    // of the vdev
  std::string device;  // verbs name
  uint8_t number = 1;  // of the device's port
  bool started = false;
  device::PortInfo info;         // as the port was found when it was created
  QueueSizes sizes;              // as configured; the defaults before that
  PortStats stats;               // with losses()
  std::vector<RxQueueStats> rx;  // of a started port
  std::vector<TxQueueStats> tx;
  flow::Filter filter;
  flow::Rss rss;
  std::vector<RuleView> rules;  // by number
};

}  // namespace kilim::inline v1::port
