// SPDX-License-Identifier: BSD-3-Clause
// Whether a WQE was appended, or a receive posted; if not, why, with the numbers. What a caller may
// try again later is no_room alone. Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/prm/data_seg.hh"

namespace kilim::queue {

enum class Refused : uint8_t {
  no,
  no_room,       // asked: basic blocks, or receives; limit: free ones
  empty_piece,   // a request of one piece that holds nothing; limit: bytes of a message
  long_piece,    // asked: bytes; limit: 2 GiB, which is all that a segment can say
  long_message,  // asked: bytes, all ones where more; limit: the longest that the queue takes
  many_pieces,   // asked: pieces; limit: what a WQE of this opcode or queue takes
};

struct Appended {
  Refused why = Refused::no;
  uint32_t asked = 0;
  uint32_t limit = 0;

  // NOLINTNEXTLINE(google-explicit-constructor): most callers ask for no more than yes or no
  constexpr operator bool() const noexcept { return why == Refused::no; }
};

// A sentence for people, without the numbers.
constexpr const char* text(Refused why) noexcept {
  switch (why) {
    case Refused::no:
      return "appended";
    case Refused::no_room:
      return "the queue has no room";
    case Refused::empty_piece:
      return "a request of one piece cannot be empty: a length of 0 stands for 2 GiB";
    case Refused::long_piece:
      return "a piece is at most 2 GiB: above, its length means inline data";
    case Refused::long_message:
      return "the message is longer than the device sends";
    case Refused::many_pieces:
      return "the request has too many pieces";
  }
  return "";
}

namespace detail {
// Of a piece that is empty or too long for `most`. Takes and gives values only, so that a cursor
// beside it stays in registers.
[[gnu::noinline, gnu::const]] inline Appended judge_piece(uint32_t length, uint32_t most) noexcept {
  if (length == 0) return {Refused::empty_piece, 0, most};
  if (length > prm::max_segment_bytes) return {Refused::long_piece, length, prm::max_segment_bytes};
  return {Refused::long_message, length, most};
}
// The same; the compiler knows that it is no success, and drops it where nobody asks for the
// numbers.
[[gnu::always_inline]] inline Appended refuse_piece(uint32_t length, uint32_t most) noexcept {
  const Appended a = judge_piece(length, most);
  if (a) __builtin_unreachable();
  return a;
}
}  // namespace detail

}  // namespace kilim::queue
