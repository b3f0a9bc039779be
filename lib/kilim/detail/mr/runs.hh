// SPDX-License-Identifier: BSD-3-Clause
// Registers memory of any origin: EAL's, a mempool's, the caller's own. Each run of pages of one
// size becomes a region, so that Region::page_bytes holds for all of it. Control path; any thread,
// one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kilim/detail/base/result.hh"
#include "kilim/detail/mr/registrar.hh"

struct rte_mempool;

namespace kilim::inline v1::mr {

// Rights of memory that packets lie in. No key over it takes atomics, which relaxed ordering must
// not reorder (UCX PRs 8218, 9143).
constexpr uint32_t packet_rights(bool relaxed_ordering) noexcept {
  return Access::local_write | (relaxed_ordering ? Access::relaxed_ordering : 0u);
}

// Registers EAL memory; the regions cover exactly `memory`, in the order of their addresses.
// ENOENT: not all of it is EAL's; or the registrar's error. After an error nothing stays
// registered.
Result<std::vector<Mr>> register_runs(Registrar& registrar, std::span<std::byte> memory,
                                      uint32_t access);

// Registers any mapped memory. EFAULT: not all of it is mapped.
Result<std::vector<Mr>> register_range(Registrar& registrar, std::span<std::byte> memory,
                                       uint32_t access);

// Registers all memory of a mempool's objects, external pinned buffers included. EINVAL: the pool
// has no memory yet; or the errors of register_range().
Result<std::vector<Mr>> register_mempool(Registrar& registrar, rte_mempool* pool, uint32_t access);

}  // namespace kilim::inline v1::mr
