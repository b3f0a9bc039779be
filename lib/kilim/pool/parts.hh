// SPDX-License-Identifier: BSD-3-Clause
// Which pool has which buffers, as addresses: two arenas may lie over the same memory. For pools
// themselves. Any thread; locks, so never in a burst.
#pragma once

#include <cstddef>
#include <span>

namespace kilim::pool::parts {

// Records the buffers of the pool `owner`. False: another pool has some of them.
bool claim(const void* owner, const char* name, std::span<const std::byte> buffers);
void release(const void* owner) noexcept;
// Writes the name of the pool that has the byte, with its 0, to `name`; false: no pool has it.
bool find(const std::byte* at, std::span<char> name) noexcept;

}  // namespace kilim::pool::parts
