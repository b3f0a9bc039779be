// SPDX-License-Identifier: BSD-3-Clause
// Memory that the library allocated for regions of the C functions, by region. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include "kilim/mem/block.hh"

namespace kilim::compat {

// From now on the region lives in this memory.
void keep(const ibv_mr* mr, mem::Block block);
// The region is gone, or no longer lives at `memory`. Who used ibv_dereg_mr() left the memory
// mapped, and another region may have its name since: it has another place.
void release(const ibv_mr* mr, const void* memory) noexcept;

}  // namespace kilim::compat
