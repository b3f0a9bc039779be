// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Ethernet Segment". Its first eight bytes: which checksums a packet gets, and where headers
// lie that the parser does not find itself. A value, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/prm/eth_seg.hh"
#include "vhca/core/profile.hh"

namespace kilim::vhca::ethernet {

// As it lies in the WQE, which is little endian here; the last two bytes, a length of segments, do
// not matter.
struct EthAsk {
  uint64_t word = 0;

  [[nodiscard]] constexpr uint8_t byte(std::size_t at) const noexcept {
    return static_cast<uint8_t>(word >> (8 * at));
  }
  [[nodiscard]] constexpr uint8_t checksums() const noexcept {
    return byte(offsetof(prm::EthSeg, cs_flags));
  }
  [[nodiscard]] constexpr bool has(uint8_t flag) const noexcept {
    return (checksums() & flag) != 0;
  }
  // Software parser: places are in words of two bytes.
  [[nodiscard]] constexpr uint8_t parser_flags() const noexcept {
    return byte(offsetof(prm::EthSeg, swp_flags));
  }
  [[nodiscard]] constexpr uint32_t place(std::size_t member) const noexcept {
    return byte(member) * 2u;
  }
  [[nodiscard]] constexpr bool says_places() const noexcept {
    return static_cast<uint32_t>(word) != 0;
  }
  // Without what it says of places.
  [[nodiscard]] constexpr EthAsk without_places() const noexcept {
    return {word & ~uint64_t{0xffffffff}};
  }
};
static_assert(sizeof(EthAsk) == 8 && offsetof(prm::EthSeg, mss) == 6);

// What an adapter without them makes of flags for inner headers is in no public source: refused.
constexpr bool is_offered(const Profile& p, EthAsk ask) noexcept {
  return p.tunnels || !ask.has(prm::eth::l3_inner_csum | prm::eth::l4_inner_csum);
}

}  // namespace kilim::vhca::ethernet
