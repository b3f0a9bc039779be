// SPDX-License-Identifier: BSD-3-Clause
// Who: what is known of whoever takes or frees a buffer of a watched pool. A plain value.
#pragma once

#include <cstdint>

namespace kilim::inline v1::pool {

struct Who {
  const char* tag = nullptr;  // BufferCache::set_tag(), of static lifetime
  const void* at = nullptr;   // the instruction that is returned to; nullptr: not known
  uint32_t lcore = 0;         // filled in by the ledger
};

}  // namespace kilim::inline v1::pool
