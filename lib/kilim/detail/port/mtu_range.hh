// SPDX-License-Identifier: BSD-3-Clause
// What an MTU may be, and how many bytes a frame has beside it. Constants; any thread.
#pragma once

#include <cstdint>

namespace kilim::inline v1::port {

// The range of mlx5's interfaces (ip -d link: minmtu 68, maxmtu 9978).
inline constexpr uint32_t shortest_mtu = 68, longest_mtu = 9978;
inline constexpr uint32_t frame_overhead = 14 + 8;  // an Ethernet header and two VLAN tags

}  // namespace kilim::inline v1::port
