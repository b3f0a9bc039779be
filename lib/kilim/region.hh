// SPDX-License-Identifier: BSD-3-Clause
// Memory that an adapter may read and write. mr::Mr registers memory of the program and deregisters
// it when it goes; mr::AllocatedRegion allocates it in the largest pages first; mr::DeviceMemory is
// memory of the adapter's own. On-demand regions pin nothing: mr::AdviceQueue asks the adapter for
// pages before they are needed, mr::ThrashDetector tells which regions fault too often. mem::Block
// is hugepage memory from EAL. What a work request names of a region is in Mr::region(): iova, lkey
// and rkey.
//
// Threads: the control path, any thread; the driver locks. A Region is a value that workers copy.
//
// Errors: ENOMEM: memory cannot be pinned, and the sentence says which limit it met; EOPNOTSUPP:
// the adapter has no such kind of region; EBUSY: a memory window is bound to it.
//
// Example:
//   #include <cstdio>
//   kilim::Status show(kilim::mr::Registrar& registrar, std::span<std::byte> memory) {
//     auto mr = kilim::mr::Mr::create(registrar, memory, kilim::mr::Access::all, 4096);
//     if (!mr) return mr.error();
//     std::printf("rkey 0x%x\n", mr->region().rkey.value());
//     return kilim::Done{};  // here the region is deregistered
//   }
#pragma once

#include "kilim/detail/mem/block.hh"
#include "kilim/detail/mr/advice_queue.hh"
#include "kilim/detail/mr/allocated.hh"
#include "kilim/detail/mr/device_memory.hh"
#include "kilim/detail/mr/eal_regions.hh"
#include "kilim/detail/mr/odp_caps.hh"
#include "kilim/detail/mr/registrar.hh"
#include "kilim/detail/mr/runs.hh"
#include "kilim/detail/mr/thrash.hh"
