// SPDX-License-Identifier: BSD-3-Clause
// PRM: "FTE_MATCH_SET_LYR_2_4", the outer headers of a frame as rules by buffer compare them. Never
// allocates; frames are untrusted.
#pragma once

#include <cstddef>
#include <span>

#include "vhca/core/spec.hh"

namespace kilim::vhca {

// At least an Ethernet header long.
MatchParam outer_headers(std::span<const std::byte> frame) noexcept;

inline bool equal_under_mask(const MatchParam& a, const MatchParam& b,
                             const MatchParam& mask) noexcept {
  for (std::size_t i = 0; i < a.size(); i++) {
    if (((a[i] ^ b[i]) & mask[i]) != 0) return false;
  }
  return true;
}

}  // namespace kilim::vhca
