// SPDX-License-Identifier: BSD-3-Clause
// PacketPlan: how a packet that was received in a header buffer and payload buffers is sent as one
// frame again, by the length of its payload: copied behind its header, as data segments, or under
// an mkey. What a Chooser says is worked out once, at set-up; a burst looks up a number.
// A value; any thread. way() never allocates, blocks or logs.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "kilim/detail/chooser/chooser.hh"

namespace kilim::inline v1::chooser {

struct PacketShape {
  uint32_t buffer_bytes = 0;  // payload that one buffer holds
  uint32_t longest = 0;       // payload of the longest packet
  uint32_t copy_room = 0;     // bytes that may be copied behind a header
  WayMask ways = all_ways;    // that the caller can use: of copy, gather_list and inline_key
};

// Payloads longer than the previous step's and up to `up_to` bytes.
struct PlanStep {
  uint32_t up_to = 0;
  Way way = Way::none;
  std::array<float, ways> ns{};  // of each way for `up_to` bytes; 0: it cannot be used for them
};

class PacketPlan {
 public:
  static constexpr uint32_t max_steps = 8;

  // Everything as data segments.
  PacketPlan() = default;
  // The header counts as a piece; its bytes, which all ways have in common, are left out.
  PacketPlan(const Chooser& chooser, const PacketShape& shape) noexcept;

  // Way::none: no way can send such a packet. Payloads beyond the last step go as those before.
  [[nodiscard]] Way way(uint32_t payload) const noexcept {
    for (uint32_t i = 0; i < count_; i++)
      if (payload <= steps_[i].up_to) return steps_[i].way;
    return last_;
  }
  [[nodiscard]] bool uses(Way w) const noexcept {
    for (const PlanStep& s : steps())
      if (s.way == w) return true;
    return last_ == w;
  }
  [[nodiscard]] std::span<const PlanStep> steps() const noexcept { return {steps_.data(), count_}; }

 private:
  std::array<PlanStep, max_steps> steps_{};
  uint32_t count_ = 0;
  Way last_ = Way::gather_list;
};

// What was decided, in one line: "copy to 96 B (copy 9 ns, list 11 ns), list to 8936 B (...)".
std::string text_of(const PacketPlan& plan);

}  // namespace kilim::inline v1::chooser
