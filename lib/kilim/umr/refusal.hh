// SPDX-License-Identifier: BSD-3-Clause
// Why a UMR was not posted, with the numbers. A value in two registers; the text is for people.
// Pure values, any thread.
#pragma once

#include <cstdint>

namespace kilim::umr {

enum class Refusal : uint8_t {
  none,             // posted
  no_room,          // asked: basic blocks; limit: free ones of the send queue
  empty,            // the view has no piece, or one that no view may hold
  too_many_inline,  // asked: pieces; limit: what fits into one WQE
  over_key,         // asked: pieces; limit: entries of the key
};

struct [[nodiscard]] Outcome {
  Refusal why = Refusal::none;
  uint32_t asked = 0;
  uint32_t limit = 0;

  [[nodiscard]] constexpr bool ok() const noexcept { return why == Refusal::none; }
};

// A sentence without the numbers.
constexpr const char* text(Refusal r) noexcept {
  switch (r) {
    case Refusal::none:
      return "posted";
    case Refusal::no_room:
      return "the send queue has too few free basic blocks";
    case Refusal::empty:
      return "the view is empty, or holds a piece of no bytes or of more than 2 GiB";
    case Refusal::too_many_inline:
      return "the view has more pieces than one WQE can carry inline";
    case Refusal::over_key:
      return "the view has more pieces than the key has entries";
  }
  return "unknown";
}

}  // namespace kilim::umr
