// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/chooser/packet_plan.hh"

#include <cstdio>

namespace kilim::inline v1::chooser {
namespace {

// A pointer to a list, and keys that are bound once, are for messages sent again.
constexpr WayMask for_packets =
    mask_of(Way::copy) | mask_of(Way::gather_list) | mask_of(Way::inline_key);

Scatter scatter_of(const PacketShape& shape, uint32_t payload) noexcept {
  Scatter s;
  s.pieces = 1 + (payload + shape.buffer_bytes - 1) / shape.buffer_bytes;
  s.bytes = payload;
  s.ways = shape.ways & for_packets;
  if (payload > shape.copy_room) s.ways = static_cast<WayMask>(s.ways & ~mask_of(Way::copy));
  return s;
}

PlanStep step_of(const Chooser& chooser, const Scatter& s, Way way) noexcept {
  PlanStep step{.up_to = static_cast<uint32_t>(s.bytes), .way = way, .ns = {}};
  const WayMask open = chooser.open_ways(s);
  for (uint32_t i = 0; i < ways; i++) {
    const Way w = static_cast<Way>(i);
    if ((open & mask_of(w)) != 0) step.ns[i] = chooser.cost(w, s);
  }
  return step;
}

}  // namespace

// The costs have a kink wherever a buffer more is taken, so the lengths are gone through one by
// one. More steps than there is room for go the way of the last.
PacketPlan::PacketPlan(const Chooser& chooser, const PacketShape& shape) noexcept {
  if (shape.buffer_bytes == 0) return;
  for (uint32_t payload = 1; payload <= shape.longest; payload++) {
    const Scatter s = scatter_of(shape, payload);
    const Way way = count_ == max_steps ? last_ : chooser.choose(s);
    if (count_ == 0 || (way != last_ && count_ < max_steps)) count_++;
    steps_[count_ - 1] = step_of(chooser, s, way);
    last_ = way;
  }
}

std::string text_of(const PacketPlan& plan) {
  std::string all;
  char part[96];
  for (const PlanStep& s : plan.steps()) {
    std::snprintf(part, sizeof part, "%s%s to %u B (", all.empty() ? "" : ", ", name_of(s.way),
                  s.up_to);
    all += part;
    const char* comma = "";
    for (uint32_t i = 0; i < ways; i++) {
      if (s.ns[i] == 0) continue;
      std::snprintf(part, sizeof part, "%s%s %.0f ns", comma, name_of(static_cast<Way>(i)),
                    static_cast<double>(s.ns[i]));
      all += part;
      comma = ", ";
    }
    all += ")";
  }
  return all.empty() ? "list" : all;
}

}  // namespace kilim::inline v1::chooser
