// SPDX-License-Identifier: BSD-3-Clause
// Tables of cases that the suite `engine` collects.
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::vhca::test {

// In engine_lives.cc.
std::span<const kilim::test::Case> engine_life_cases();

}  // namespace kilim::vhca::test
