// SPDX-License-Identifier: BSD-3-Clause
// Which key a work request names for an address. lookup::Index holds regions and answers in a few
// loads; lookup::Front is one queue's cache before it; lookup::IndexedRegions keeps all of EAL's
// memory registered and in the index, also what EAL adds later.
//
// Threads: one thread changes an Index, under a lock where IndexedRegions does; any worker that
// reports quiescent states reads it. A Front is its queue's worker's.
//
// Errors: create() gives ENOMEM, or the registrar's error; find() gives Lkey{0} where no region
// covers the bytes.
//
// Example:
//   kilim::Lkey key_of(kilim::lookup::Front& front, const void* data, uint64_t bytes) {
//     return front.find(reinterpret_cast<uintptr_t>(data), bytes);
//   }
#pragma once

#include "kilim/detail/lookup/front.hh"
#include "kilim/detail/lookup/index.hh"
#include "kilim/detail/lookup/indexed_regions.hh"
