// SPDX-License-Identifier: BSD-3-Clause
// Filter: which frames a port receives where no flow rule says otherwise. Pure values, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kilim/detail/flow/match.hh"
#include "kilim/detail/flow/rule.hh"

namespace kilim::inline v1::flow {

struct Filter {
  bool promiscuous = true;       // everything, whatever the rest says
  bool all_multicast = false;    // frames to any group
  std::vector<MacAddress> macs;  // besides the port's own; groups too
  // VLAN numbers, 0 to 4095: only frames tagged so, and none without a tag. Empty: tags do not
  // matter.
  std::vector<uint16_t> vlans;
};

inline constexpr std::size_t max_filter_macs = 128, max_filter_vlans = 128;

RuleError check(const Filter& filter) noexcept;

// What the filter takes, for a port of this address; broadcast is always among it.
std::vector<Match> matches_of(const Filter& filter, const MacAddress& own);

}  // namespace kilim::inline v1::flow
