// SPDX-License-Identifier: BSD-3-Clause
// Tables of telemetry_ut's other sources.
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::test {

std::span<const Case> capture_cases();

}  // namespace kilim::test
