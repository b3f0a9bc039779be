// SPDX-License-Identifier: BSD-3-Clause
// From rte_flow's words to Kilim's rules: attributes, pattern, actions. A word that no Kilim rule
// has is refused with what and why, never left out. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "kilim/detail/flow/rule.hh"
#include "net/kilim/ethdev_abi.hh"

namespace kilim::net {

// Why a rule of rte_flow was refused; code 0: it was not.
struct FlowRefusal {
  int code = 0;  // a positive errno
  rte_flow_error_type type = RTE_FLOW_ERROR_TYPE_NONE;
  const void* cause = nullptr;
  const char* what = "";
};

// The pattern, which ends with RTE_FLOW_ITEM_TYPE_END.
FlowRefusal read_pattern(const rte_flow_item* items, flow::Match& match);
// The parts of a rule that are known when its actions are read.
struct ActionContext {
  const flow::Match& match;
  const flow::Rss& defaults;  // the port's own spreading
  bool egress = false;        // of frames that leave
};
// The actions, which end with RTE_FLOW_ACTION_TYPE_END.
FlowRefusal read_actions(const rte_flow_action* actions, const ActionContext& context,
                         flow::Action& action);
}  // namespace kilim::net
