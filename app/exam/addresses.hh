// SPDX-License-Identifier: BSD-3-Clause
// The MAC address of a port: its network interface's, or the one that its GIDs are made of. Reads
// alone, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "rig.hh"

namespace kilim::exam {

using Mac = std::array<uint8_t, 6>;

std::optional<Mac> mac_of_interface(uint32_t ifindex);
std::optional<Mac> mac_of_gid(const ibv_gid& gid);
// Ends the child where none is found.
Mac port_mac(const Device& device);

}  // namespace kilim::exam
