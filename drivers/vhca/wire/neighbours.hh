// SPDX-License-Identifier: BSD-3-Clause
// The machine's own table of neighbours on one of its interfaces (ARP, neighbour discovery): whose
// address is an interface's, his kernel asks and answers for it. Control path; any thread.
#pragma once

#include <optional>

#include "vhca/core/spec.hh"

namespace kilim::vhca::wire {

// What the table has of this address, mapped where it is of version 4. Nothing yet: the kernel has
// been moved to ask, and knows a moment later if somebody answers.
std::optional<Mac> find_in_kernel(int interface, const Gid& address) noexcept;
// The interface's own address.
std::optional<Mac> mac_of_interface(int interface) noexcept;

}  // namespace kilim::vhca::wire
