// SPDX-License-Identifier: BSD-3-Clause
// The ports of this process, in the order in which EAL probed their devices. The driver that makes
// a port enters it and takes it out; it stays the driver's. Any thread, but what a look-up returned
// lives only as long as nothing is removed; walk_ports() keeps its ports while it runs.
#pragma once

#include <cstddef>
#include <string_view>

#include "kilim/detail/base/roster.hh"
#include "kilim/detail/port/port.hh"

namespace kilim::inline v1::port {

void enter(Port& port);
// Waits for a walk that is under way.
void leave(Port& port) noexcept;

[[nodiscard]] std::size_t port_count() noexcept;
// nullptr: beyond the last.
[[nodiscard]] Port* port_at(std::size_t index) noexcept;
// By the name of the vdev, such as net_kilim0; nullptr: no such port.
[[nodiscard]] Port* port_named(std::string_view name) noexcept;

// Shows each port to a function, which neither enters nor leaves one.
void walk_ports(Visit<Port> see);

}  // namespace kilim::inline v1::port
