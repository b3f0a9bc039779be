// SPDX-License-Identifier: BSD-3-Clause
// The parts of the test of rdma_cm.
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::vhca::test {

std::span<const kilim::test::Case> hostile_rdmacm_cases();
std::span<const kilim::test::Case> connection_rdmacm_cases();

}  // namespace kilim::vhca::test
