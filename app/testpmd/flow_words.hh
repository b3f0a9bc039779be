// SPDX-License-Identifier: BSD-3-Clause
// Flow rules as testpmd writes them, as far as kilim/flow.hh has them: `[group N] [priority N]
// [ingress] pattern ITEM [FIELD is|spec|mask|prefix VALUE]... / ... / end actions ACTION / ... /
// end`. Pure text, any thread; words are untrusted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kilim/flow.hh"

namespace kilim::testpmd {

struct FlowWords {
  flow::Rule rule;
  uint32_t group = 0;
  std::string text;               // as `flow list` shows it: "ETH IPV4 => QUEUE"
  std::string why;                // not empty: what is wrong with the words
  bool complete = false;          // all is there
  std::vector<std::string> next;  // not complete: what may follow
};

FlowWords parse_flow(std::span<const std::string> words);

}  // namespace kilim::testpmd
