// SPDX-License-Identifier: BSD-3-Clause
// What is wrong with a rule's action, whatever the device. For flow::check() alone, which has
// looked at the match before. Pure functions, any thread.
#pragma once

#include "kilim/detail/flow/rule.hh"

namespace kilim::inline v1::flow {

RuleError check_action(const Rule& rule, const RuleLimits& limits) noexcept;

}  // namespace kilim::inline v1::flow
