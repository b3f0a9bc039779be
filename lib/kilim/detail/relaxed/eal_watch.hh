// SPDX-License-Identifier: BSD-3-Clause
// Counts how often EAL has returned memory to the system: a registered region then no longer
// matches what is mapped. One count for the process, any thread. EAL's event comes on the thread
// that frees, with EAL's memory lock held.
#pragma once

#include <cstdint>

namespace kilim::inline v1::relaxed {

// Subscribes to EAL's memory events. Without hugepages EAL has none and returns no memory.
void watch_eal() noexcept;
// The count, which grows before the memory is unmapped.
uint64_t eal_losses() noexcept;
// Called by EAL's event.
void note_eal_loss() noexcept;

}  // namespace kilim::inline v1::relaxed
