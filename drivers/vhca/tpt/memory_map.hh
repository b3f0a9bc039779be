// SPDX-License-Identifier: BSD-3-Clause
// Which mapping of this process lies at or behind an address, by /proc/self/maps. Any thread; a few
// system calls; never allocates.
#pragma once

#include <cstdint>

#include "vhca/tpt/page_table.hh"

namespace kilim::vhca {

// The first one that ends behind `va`; false: none does. What the kernel has split is several.
bool find_mapping(uint64_t va, PageRange& mapping) noexcept;

}  // namespace kilim::vhca
