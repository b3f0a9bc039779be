// SPDX-License-Identifier: BSD-3-Clause
// A flow rule: which frames, and what becomes of them. check() finds what no device takes and names
// the field, as rte_flow_validate() does. Pure values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kilim/detail/flow/match.hh"
#include "kilim/detail/flow/rewrite.hh"
#include "kilim/detail/flow/rss.hh"

namespace kilim::inline v1::flow {

struct Action {
  // `send`: what leaves goes on to the wire; of rules for what leaves alone.
  enum class Fate : uint8_t { queue, rss, drop, send };
  Fate fate = Fate::queue;
  uint16_t queue = 0;              // Fate::queue
  Rss rss;                         // Fate::rss
  std::optional<uint32_t> mark;    // SideRecord::mark() of its packets; 24 bits, not 0
  bool count = false;              // packets and bytes can be queried
  std::vector<Rewrite> rewrite{};  // made in this order before the frame arrives; not of drop
  // Headers in front of a frame that leaves, from Ethernet's on. The device writes their IP and UDP
  // lengths and IPv4's sum.
  std::vector<std::byte> prepend{};
};

// Rules of lower priority numbers are asked first; within a priority those that name more layers.
// The port's own rules (flow::Filter) come after all of them.
struct Rule {
  Match match;
  Action action;
  uint8_t priority = 0;
  // For frames that the device's raw packet queues send, of every user of the device; they are
  // dropped, or changed and sent.
  bool egress = false;
};
inline constexpr uint8_t last_priority = 2;

// The part of a rule that an error is about.
enum class Field : uint8_t {
  none,
  priority,
  eth_dst,
  eth_src,
  eth_type,
  vlan,
  ipv4,
  ipv6,
  tcp,
  udp,
  tunnel,
  inner,
  icmp,
  esp,
  queue,
  rss_types,
  rss_table,
  mark,
  count,
  rewrite,
  prepend,
  egress,
  filter_macs,
  filter_vlans,
};
// "ipv4", "action.queue"; "" for none.
const char* name_of(Field field) noexcept;

struct RuleError {
  int code = 0;  // a positive errno value; 0: there is no error
  Field field = Field::none;
  const char* what = "";  // a sentence with static storage
};

struct RuleLimits {
  uint32_t queues = 1;                     // receive queues of the port
  uint32_t longest_table = longest_table;  // entries of a table
  bool few_places = false;                 // 8 in the device's order (flow/expand.hh)
};

RuleError check(const Rule& rule, const RuleLimits& limits) noexcept;
RuleError check(const Rss& rss, const RuleLimits& limits) noexcept;

// What a counting rule has seen since it was made.
struct Count {
  uint64_t packets = 0, bytes = 0;
};

}  // namespace kilim::inline v1::flow
