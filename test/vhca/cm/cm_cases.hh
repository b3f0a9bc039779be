// SPDX-License-Identifier: BSD-3-Clause
// The parts of cm_ut: each a table of cases.
#pragma once

#include <cstdio>
#include <span>

#include "cm_fixture.hh"
#include "ut.hh"

namespace kilim::vhca::test {

std::span<const kilim::test::Case> transition_cases();
std::span<const kilim::test::Case> message_cases();
std::span<const kilim::test::Case> timing_cases();
std::span<const kilim::test::Case> handshake_cases();
std::span<const kilim::test::Case> hostile_cases();
std::span<const kilim::test::Case> kernel_cases();

}  // namespace kilim::vhca::test
