// SPDX-License-Identifier: BSD-3-Clause
// Whether EAL has given memory back to the system: what was registered of it is then no longer what
// is mapped there. One count for the process. Any thread; EAL's event comes on whatever thread
// frees, with EAL's memory lock held, and only counts.
#pragma once

#include <cstdint>

namespace kilim::relaxed {

// EAL's events are listened to from now on. Without hugepages EAL has none, and gives nothing back.
void watch_eal() noexcept;
// Grows whenever memory goes, before it is unmapped.
uint64_t eal_losses() noexcept;
// What EAL's event calls.
void note_eal_loss() noexcept;

}  // namespace kilim::relaxed
