// SPDX-License-Identifier: BSD-3-Clause
// Why a queue does not take a piece: it is empty, or longer than a segment or the device can say.
// Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/detail/base/outcome.hh"
#include "kilim/prm/data_seg.hh"

namespace kilim::inline v1::queue {

namespace detail {
// The reason for refusing a piece that is empty or longer than `most`. It takes and returns values
// only, so that the caller's cursor stays in registers.
[[gnu::noinline, gnu::const]] inline Outcome judge_piece(uint32_t length, uint32_t most) noexcept {
  if (length == 0) return {Refusal::empty_piece, 0, most};
  if (length > prm::max_segment_bytes) return {Refusal::long_piece, length, prm::max_segment_bytes};
  return {Refusal::long_message, length, most};
}
// Refuses a piece like judge_piece(), and tells the compiler that the outcome is never a success,
// so that the call disappears where the caller does not look at the numbers.
[[gnu::always_inline]] inline Outcome refuse_piece(uint32_t length, uint32_t most) noexcept {
  const Outcome a = judge_piece(length, most);
  if (a) __builtin_unreachable();
  return a;
}
}  // namespace detail

}  // namespace kilim::inline v1::queue
