// SPDX-License-Identifier: BSD-3-Clause
// Why a UMR was not posted, with the numbers. A value in two registers; the text is for people.
// Pure values, any thread.
#pragma once

#include <cstdint>
#include <span>

namespace kilim::umr {

enum class Refusal : uint8_t {
  none,             // posted
  no_room,          // asked: basic blocks; limit: free ones of the send queue
  empty,            // the view has no piece, or one that no view may hold
  too_many_inline,  // asked: octowords of the list; limit: what fits into one WQE
  over_key,         // asked: octowords of the list; limit: entries of the key
  no_such_change,   // asked: the fields
  no_pointer,       // the device takes no lists by pointer
  no_list_memory,   // asked: octowords; limit: all that the list memory has
  misaligned_list,  // asked: the address's offset in 2048 bytes; limit: 0
  off_granule,      // asked: an entry or a number of entries; limit: what it must be a multiple of
  offset_too_far,   // asked: first entry; limit: the last that the device can name
  no_repeat,        // the device has no strided lists
  on_demand,        // the kernel finds no page behind a strided list
  long_block,       // asked: bytes of a strided entry; limit: 65535
  long_stride,      // asked: stride; limit: 65535
  long_repetition,  // asked: MiB of one repetition; limit: 4095
  too_many_blocks,  // asked: entries of one repetition; limit: 65535
  wrong_size,       // asked: bytes of a fixed-size entry; limit: what they must be
  keeps_entity,     // the device does not change the size of fixed entries
  too_deep,         // asked: levels of keys; limit: what the device follows
  itself,           // asked: entry; the key would show itself
  no_key,           // asked: keys; limit: free ones: the pool is dry, or they wait for an epoch
  queue_failed,     // the queue had an error and has not been recovered
  wrong_kind,       // the key's entries are of another kind than the layout's
  long_window,      // asked: MiB of a memory window; limit: 2048
  beyond_region,    // asked: bytes of a memory window; limit: bytes of the region from there on
  not_bindable,     // the region lets no windows be bound to it
  window_rights,    // asked: access bits; limit: those that a window can grant
  read_only,        // the region cannot be written, nor can it be through a window
  zero_based,       // a window of type 1 knows its memory by the region's addresses
  unsigned_rule,    // neither domain is signed
  copies_nothing,   // asked: the copy mask
  long_piece,       // asked: bytes of a piece; limit: 2 GiB
  other_queue,      // asked: queue pair; limit: the one that the window belongs to
};

struct [[nodiscard]] Outcome {
  Refusal why = Refusal::none;
  uint32_t asked = 0;
  uint32_t limit = 0;

  [[nodiscard]] constexpr bool ok() const noexcept { return why == Refusal::none; }
};

// A sentence without the numbers.
const char* text(Refusal r) noexcept;
// The sentence with its numbers, cut where `out` ends. Returns its length. Not on the way of a
// burst.
uint32_t describe(const Outcome& outcome, std::span<char> out) noexcept;

}  // namespace kilim::umr
