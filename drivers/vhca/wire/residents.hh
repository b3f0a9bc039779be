// SPDX-License-Identifier: BSD-3-Clause
// Who lives behind the slots of a folder (slots.hh): each port leaves a note with its address and
// its process. A peer that was killed has none any more, and one that came to its slot has another,
// so a connection manager can say what a dead process's kernel would have said; one that is stopped
// is known by its process. Notes are untrusted bytes. Control path: opens files, allocates;
// adapter's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vhca/core/spec.hh"
#include "vhca/wire/wire.hh"

namespace kilim::vhca::wire {

struct Resident {
  uint64_t life = 0;   // a random number, never 0: no other process in this place has the same
  uint64_t start = 0;  // of the process, as /proc/PID/stat has it
  uint32_t pid = 0;    // in its own namespace
  uint16_t slot = 0;
  Mac mac{};
  uint32_t reserved = 0;
};
static_assert(sizeof(Resident) == 32);

// The name of the note: none that a service id or a port has.
inline constexpr uint64_t resident_note = ~uint64_t{0} - 1;

// This process, behind this slot.
Resident resident_here(const Mac&, uint32_t slot) noexcept;
// All others that live. Of a wire without slots: nobody. `whole`: nothing kept the kernel from
// saying so, as a limit of descriptors would.
std::vector<Resident> residents_of(Wire&, bool& whole);
// A signal or a debugger has stopped the process, as far as this one's /proc knows it.
bool is_stopped(const Resident&) noexcept;

}  // namespace kilim::vhca::wire
