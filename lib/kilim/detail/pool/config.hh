// SPDX-License-Identifier: BSD-3-Clause
// What a pool is made of. A plain value.
#pragma once

#include <cstdint>

#include "kilim/detail/pool/debug.hh"

namespace kilim::inline v1::pool {

struct PoolConfig {
  const char* name = "kilim_pool";  // unique in the process, at most 20 characters
  uint32_t first = 0;               // index of the pool's first buffer in the arena
  uint32_t count = 0;
  int numa_node = -1;
  PoolDebug debug{};  // on: the pool watches its buffers, and each call of a cache takes longer
};

}  // namespace kilim::inline v1::pool
