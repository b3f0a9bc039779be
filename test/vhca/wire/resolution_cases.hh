// SPDX-License-Identifier: BSD-3-Clause
// The second part of packet_ut (address_resolution.cc).
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::vhca::test {

std::span<const kilim::test::Case> resolution_cases();

}  // namespace kilim::vhca::test
