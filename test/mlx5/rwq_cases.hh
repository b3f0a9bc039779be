// SPDX-License-Identifier: BSD-3-Clause
// Cases of mlx5_device that are in another source.
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::test {

std::span<const Case> rwq_cases();

}  // namespace kilim::test
