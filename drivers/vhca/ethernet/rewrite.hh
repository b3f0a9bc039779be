// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Modify Header Actions". What steering does to a frame's outer headers: bits of a header
// field are set, added to, or copied from another. Sums that were right stay right. Adapter's lock
// held. Never allocates; frames and lists are untrusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kilim::vhca::ethernet {

// What a frame carries along while entries look at it, for them alone: 64 bits each.
struct SteeringRegisters {
  std::array<uint64_t, 4> reg{};
  uint64_t metadata = 0;  // B above A
};

// prm::ste::rewrite in host order.
struct RewriteAction {
  uint8_t opcode = 0;
  uint8_t to = 0, to_shift = 0;      // field and its lowest bit
  uint8_t from = 0, from_shift = 0;  // of a copy
  uint8_t length = 0;                // in bits, 1 to 64
  uint32_t data = 0;
};
// Of a list that rules of the firmware's name; owned by whoever made it, outlives its rules.
struct RewriteList {
  std::vector<RewriteAction> actions;
};

// 8 bytes as a list in the adapter's memory has them. Nothing: no such action.
std::optional<RewriteAction> read_action(std::span<const std::byte> bytes) noexcept;
// 8 bytes as a command of the firmware has them ("Set Action" and its like).
std::optional<RewriteAction> read_prm_action(std::span<const std::byte> bytes) noexcept;

// What the frame does not have is not changed.
void rewrite_frame(std::span<const RewriteAction>, std::span<std::byte> frame,
                   SteeringRegisters&) noexcept;

}  // namespace kilim::vhca::ethernet
