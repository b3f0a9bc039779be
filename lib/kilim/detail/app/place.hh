// SPDX-License-Identifier: BSD-3-Clause
// Which lane serves a receive queue, by NUMA node and by what the lanes have already. Pure
// functions, any thread.
#pragma once

#include <cstddef>
#include <span>

namespace kilim::inline v1::app {

struct Place {
  int node = 0;            // of the lane's lcore
  std::size_t inputs = 0;  // that the lane has
};

// True: the two nodes are known and differ. A device's node is -1 where the machine has one node.
constexpr bool is_far(int lcore_node, int device_node) noexcept {
  return device_node >= 0 && lcore_node != device_node;
}

// The lane with the fewest inputs; of several the first one near the device, else the first one.
constexpr std::size_t choose_place(std::span<const Place> places, int device_node) noexcept {
  std::size_t best = 0;
  for (std::size_t i = 1; i < places.size(); i++) {
    const bool fewer = places[i].inputs < places[best].inputs;
    const bool nearer = places[i].inputs == places[best].inputs &&
                        is_far(places[best].node, device_node) &&
                        !is_far(places[i].node, device_node);
    if (fewer || nearer) best = i;
  }
  return best;
}

}  // namespace kilim::inline v1::app
