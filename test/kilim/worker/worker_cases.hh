// SPDX-License-Identifier: BSD-3-Clause
// Tables of worker_ut's other sources.
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::test {

std::span<const Case> change_cases();
std::span<const Case> sleep_cases();

}  // namespace kilim::test
