// SPDX-License-Identifier: BSD-3-Clause
// Memory that the library allocated for regions of the C interface, by region. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include "kilim/detail/mem/block.hh"

namespace kilim::compat {

// Keeps the memory of a region.
void keep(const ibv_mr* mr, mem::Block block);
// Frees the memory of a region that is deregistered or has moved away from `memory`. After a plain
// ibv_dereg_mr() the memory stays mapped, and a new region may have the same pointer, so the
// address is compared too.
void release(const ibv_mr* mr, const void* memory) noexcept;

}  // namespace kilim::compat
