// SPDX-License-Identifier: BSD-3-Clause
// How freely an adapter orders what stands in one send queue: as it stands there, or late wherever
// no fence forbids it, as a card may. A value, fixed when the adapter is made; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "kilim/detail/base/result.hh"

namespace kilim::vhca {

struct Order {
  static constexpr uint8_t always = 8;  // of eight
  // How many of eight are late:
  uint8_t changes = 0;   // UMRs, invalidations, PSVs: behind WQEs that follow them
  uint8_t answers = 0;   // of READs, atomics and copies: behind WQEs that follow them
  uint8_t messages = 0;  // SENDs and WRITEs: read again behind key changes that follow them
  uint64_t seed = 0;     // which ones

  // Nothing is ever late: one WQE after the other.
  [[nodiscard]] constexpr bool strict() const noexcept {
    return (changes | answers | messages) == 0;
  }
};

// "strict" (default); "weak" (some of everything), "late-umr", "late-read", "resend" (all of one
// kind), each of these four also with a seed, as "weak:7". EINVAL for another word.
Result<Order> find_order(std::string_view word);

}  // namespace kilim::vhca
