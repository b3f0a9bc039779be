// SPDX-License-Identifier: BSD-3-Clause
// Level: where a line lies that a device wrote: in the first cache (the emulated device writes from
// the same core), in L3 as a card's writes do with DDIO, in memory. One thread; evict() does
// nothing for hot lines, and is never called in what is measured.
#pragma once

#include <cstdint>

namespace kilim::race {

enum class Level : uint8_t { hot, l3, memory };

// Asks the processor to move a line out: cldemote, which is a hint, or clflushopt.
void evict(const void* line, Level level) noexcept;

// Nanoseconds of a read of a line at a level, median of many; the reads depend on each other.
double read_ns(Level level) noexcept;

}  // namespace kilim::race
