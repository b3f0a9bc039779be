// SPDX-License-Identifier: BSD-3-Clause
// Capability fields that nothing here acts by, but that a card's dump has and a client may read:
// limits said a second time, and abilities that need no bit here (test/truth/facts.tsv has the
// card's values). Called by fill_caps() alone. Pure values, any thread.
#pragma once

#include <bit>
#include <cstdint>

#include "vhca/hca/caps.hh"

namespace kilim::vhca::hca {

// Of a power of two.
constexpr uint32_t log2_of(uint32_t v) {
  return static_cast<uint32_t>(std::bit_width(v) - 1);
}

// Adds to the general, the Ethernet and the RoCE group; others stay as they are.
void fill_card_caps(const Profile& profile, uint16_t group_number, CapGroup group);

}  // namespace kilim::vhca::hca
