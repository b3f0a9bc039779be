// SPDX-License-Identifier: BSD-3-Clause
// Memory that the library allocated for regions of the C functions, by region. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include "kilim/mem/block.hh"

namespace kilim::compat {

// From now on the region lives in this memory; what it had before is released.
void keep(const ibv_mr* mr, mem::Block block);
// The region is gone, or lives elsewhere.
void release(const ibv_mr* mr) noexcept;

}  // namespace kilim::compat
