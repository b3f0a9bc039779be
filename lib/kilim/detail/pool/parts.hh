// SPDX-License-Identifier: BSD-3-Clause
// Which pool has which buffers, as addresses: two arenas may lie over the same memory; and what
// pools there are (pool/pools.hh). For pools themselves. Any thread; locks, so never in a burst.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilim::inline v1::pool::parts {

struct Part {
  const void* owner;  // what holds the free buffers
  const char* name;
  std::span<const std::byte> buffers;
  uint32_t count;
  uint32_t (*available)(const void* owner) noexcept;  // any thread; null: not told
};

// Records the buffers of a pool. False: another pool has some of them.
bool claim(const Part& part);
void release(const void* owner) noexcept;
// Writes the name of the pool that has the byte, with its 0, to `name`; false: no pool has it.
bool find(const std::byte* at, std::span<char> name) noexcept;

}  // namespace kilim::inline v1::pool::parts
