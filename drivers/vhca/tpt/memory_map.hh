// SPDX-License-Identifier: BSD-3-Clause
// Which mapping of this process lies at or behind an address, by /proc/self/maps. Any thread; a few
// system calls; never allocates.
#pragma once

#include <cstdint>

#include "vhca/tpt/page_table.hh"

namespace kilim::vhca::tpt {

// What /proc/self/maps says of a mapping besides where it lies.
struct MappingKind {
  bool may_read = false, may_write = false, may_execute = false, shared = false;
};

// The first one that ends behind `va`; false: none does. What the kernel has split is several.
bool find_mapping(uint64_t va, PageRange& mapping) noexcept;
bool find_mapping(uint64_t va, PageRange& mapping, MappingKind& kind) noexcept;

}  // namespace kilim::vhca::tpt
