// SPDX-License-Identifier: BSD-3-Clause
// What the readers of rte_flow's actions share: refusals, and the readers of actions that change
// headers or put some in front. For ethdev_flow_actions.cc and its neighbours alone, on the
// caller's thread; pure functions, which never touch a device.
#pragma once

#include <cerrno>

#include "net/kilim/ethdev_flow.hh"

namespace kilim::net {

inline FlowRefusal refuse_action(const rte_flow_action& a, const char* what) {
  return {ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &a, what};
}
inline FlowRefusal refuse_conf(const rte_flow_action& a, int code, const char* what) {
  return {code, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &a, what};
}

// Whether it is an action that changes headers, and how it is read.
bool changes_headers(rte_flow_action_type type) noexcept;
FlowRefusal read_change(const rte_flow_action& a, const flow::Match& match, flow::Action& action);

// Whether it is an action that puts headers in front of what leaves, and how it is read.
bool prepends_headers(rte_flow_action_type type) noexcept;
FlowRefusal read_prepend(const rte_flow_action& a, flow::Action& action);

}  // namespace kilim::net
