// SPDX-License-Identifier: BSD-3-Clause
// The pools of this process, for telemetry and for reports. Any thread, also while workers take and
// free buffers; waits for pools that come or go, so never in a burst.
#pragma once

#include <cstdint>
#include <optional>

#include "kilim/detail/base/roster.hh"

namespace kilim::inline v1::pool {

struct PoolView {
  const char* name = "";  // for the call alone
  uint32_t size = 0;      // buffers
  // Free ones in the pool's ring; the others are in caches, in rings of queues, or in use. Not told
  // of pools of mbufs (EAL's /mempool/info tells), and behind EAL's end.
  std::optional<uint32_t> available;
};

// Shows the pools in the order in which they were made; `see` makes and destroys none.
void walk_pools(Visit<const PoolView> see);

}  // namespace kilim::inline v1::pool
