// SPDX-License-Identifier: BSD-3-Clause
// Tables of app_ut's other sources.
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::test {

std::span<const Case> lane_cases();
std::span<const Case> flow_cases();

}  // namespace kilim::test
