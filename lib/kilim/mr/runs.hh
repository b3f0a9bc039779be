// SPDX-License-Identifier: BSD-3-Clause
// Regions over memory that EAL holds: one for each run of pages of one size, so that a region's
// page size is true of all of it. Control path; any thread, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/mr/registrar.hh"

namespace kilim::mr {

// In order of address; together they cover exactly `memory`. ENOENT: EAL does not hold all of it;
// else what the registrar answers, and nothing stays registered.
Result<std::vector<Mr>> register_runs(Registrar& registrar, std::span<std::byte> memory,
                                      uint32_t access);

}  // namespace kilim::mr
