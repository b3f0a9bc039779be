// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Steering Table Entry", what an entry looks at: 16 bytes of a frame's headers, chosen by the
// lookup's number, and the place in the next table that a hash over some of them picks. Never
// allocates; frames are untrusted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/core/spec.hh"
#include "vhca/ethernet/rewrite.hh"

namespace kilim::vhca::ethernet {

using SteTag = std::array<std::byte, 16>;

// The headers of a frame as lookups read them, and what goes with the frame.
struct SteHeaders {
  MatchParam outer{};
  DeepMatch deeper{};
  uint32_t source_queue = 0;  // of a frame that leaves
};
SteHeaders read_headers(std::span<const std::byte> frame) noexcept;

// False: no lookup that this adapter has.
bool look_up(uint8_t lookup, const SteHeaders&, const SteeringRegisters&, SteTag& found) noexcept;

// rdma-core v44 providers/mlx5/dr_ste.c, dr_ste_calc_hash_index(). A bit of the mask a byte, the
// highest for the first; `entries` a power of two.
uint32_t hash_place(const SteTag& found, uint16_t byte_mask, uint32_t entries) noexcept;

}  // namespace kilim::vhca::ethernet
