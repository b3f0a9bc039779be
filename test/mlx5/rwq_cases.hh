// SPDX-License-Identifier: BSD-3-Clause
// Cases of mlx5_device that are in other sources.
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::test {

std::span<const Case> rwq_cases();
std::span<const Case> event_cases();

}  // namespace kilim::test
