// SPDX-License-Identifier: BSD-3-Clause
// Parts of umr_ut.
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::test {

// Of hand_written.cc.
std::span<const Case> hand_written_cases();

}  // namespace kilim::test
