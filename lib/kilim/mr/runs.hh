// SPDX-License-Identifier: BSD-3-Clause
// Regions over memory of any origin: EAL's, a mempool's, the caller's own. One for each run of
// pages of one size, so that a region's page size is true of all of it.
// Control path; any thread, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kilim/base/result.hh"
#include "kilim/mr/registrar.hh"

struct rte_mempool;

namespace kilim::mr {

// In order of address; together they cover exactly `memory`. ENOENT: EAL does not hold all of it;
// else what the registrar answers, and nothing stays registered.
Result<std::vector<Mr>> register_runs(Registrar& registrar, std::span<std::byte> memory,
                                      uint32_t access);

// The same for memory of any origin: a plain range, external memory, EAL's. EFAULT: not mapped.
Result<std::vector<Mr>> register_range(Registrar& registrar, std::span<std::byte> memory,
                                       uint32_t access);

// Everything that the objects of a pool lie in, buffers outside the pool (pinned external ones)
// included.
Result<std::vector<Mr>> register_mempool(Registrar& registrar, rte_mempool* pool, uint32_t access);

}  // namespace kilim::mr
