// SPDX-License-Identifier: BSD-3-Clause
// Divides a rule that spreads frames into rules for one kind of hash each: a device's hash queue
// pair knows one kind only (Linux drivers/infiniband/hw/mlx5/qp.c, create_rss_raw_qp_tir()), as
// DPDK's mlx5 driver does (rte_flow_expand_rss()). Pure values, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "kilim/detail/flow/match.hh"
#include "kilim/detail/flow/rss.hh"

namespace kilim::inline v1::flow {

// How deep a match looks: a device asks rules that look deeper first.
enum class Layer : uint8_t { ports, ip, link };
inline constexpr uint16_t layers = 3;
Layer layer_of(const Match& match) noexcept;

// Only group addresses match: mlx5 devices keep such rules in one table, whatever their priority
// and depth (Linux drivers/infiniband/hw/mlx5/fs.c, flow_is_multicast_only()), so they are not
// divided.
bool for_groups_alone(const Match& match) noexcept;

// One of the rules; frames that it takes are hashed by `kind`.
struct Leaf {
  Match match;
  HashKind kind = HashKind::none;
  Layer layer = Layer::link;  // of the headers that are hashed
};
// Each frame that `match` takes is taken by the deepest of the leaves that match it, and by at
// least one. Rules for groups alone stay whole, and their frames have no hash.
// With `inner` the frames are in a tunnel, kinds are those of the inner headers, and leaves of one
// rule are asked in the order of inner layers.
std::vector<Leaf> expand(const Match& match, uint32_t types, bool inner = false);

// Inner headers as if they stood by themselves.
Match inside(const Inner& inner) noexcept;

// Frames of `match` in a tunnel whose inner headers a port hashes (Rss::inner): VXLAN at its UDP
// port and GRE, over IPv4 and IPv6. None for groups alone, whose frames have no hash.
std::vector<Match> in_tunnels(const Match& match);

// Places of rules in a device's order, of which mlx5 devices have 16, and 8 with older kernels
// (DPDK 22.11 drivers/net/mlx5/mlx5_flow_verbs.c, flow_verbs_discover_priorities()). A rule has
// three from its place on, one for each layer: device_priority().
constexpr uint16_t device_priority(uint16_t place, Layer layer) noexcept {
  return static_cast<uint16_t>(place + static_cast<uint16_t>(layer));
}
constexpr uint16_t place_of_priority(uint8_t priority) noexcept {
  return static_cast<uint16_t>(priority * layers);
}
// The port's own rules stand behind those of all priorities: the ones that look into tunnels, then
// the others. They change under traffic by a second set, one place further on or back. Where a rule
// of one set meets the next layer's of the other no frame is lost or doubled: they ask for
// different headers, and each leads a frame that both match where its set says
// (doc/decisions/0070).
inline constexpr uint16_t own_sets = 2;
// With `few` places, 8, there is one priority, no rule looks into tunnels, and one place stays free
// so that no set meets the rules of others.
constexpr uint16_t place_of_own(uint16_t set, bool tunnels, bool few = false) noexcept {
  constexpr uint16_t first = 3 * layers;  // flow::last_priority + 1 priorities
  if (few) return static_cast<uint16_t>(layers + 1 + set);
  return static_cast<uint16_t>(first + set + (tunnels ? 0 : layers));
}

}  // namespace kilim::inline v1::flow
