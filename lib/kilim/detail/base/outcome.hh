// SPDX-License-Identifier: BSD-3-Clause
// Outcome: whether a request was appended to a queue, and if not, why, with two numbers. A refused
// request has changed nothing. For hot paths, where it is returned in two registers; control paths
// return Result<T> (base/result.hh). A request refused for no_room, no_key or no_list_memory may be
// accepted later; the other refusals are final. Pure values, any thread.
#pragma once

#include <cstdint>
#include <span>

namespace kilim::inline v1 {

// The reasons. Behind each stands what `asked` and `limit` hold; where nothing is said of them,
// they mean nothing.
enum class Refusal : uint8_t {
  none,             // appended
  no_room,          // asked: basic blocks, or receives; limit: free ones of the queue
  empty,            // the view has no piece, or one that no view may hold
  too_many_inline,  // asked: octowords of the list; limit: what fits into one WQE
  over_key,         // asked: octowords of the list; limit: entries of the key
  no_such_change,   // asked: the fields
  no_pointer,       // the device has no lists by pointer
  no_list_memory,   // asked: octowords; limit: all that the list memory has
  misaligned_list,  // asked: the address's offset in 2048 bytes; limit: 0
  off_granule,      // asked: an entry or a number of entries; limit: what it must be a multiple of
  offset_too_far,   // asked: first entry; limit: the last that the device can name
  no_repeat,        // the device has no strided lists
  on_demand,        // a strided list over on-demand memory: the kernel would not find its pages
  long_block,       // asked: bytes of a strided entry; limit: 65535
  long_stride,      // asked: stride; limit: 65535
  long_repetition,  // asked: MiB of one repetition; limit: 4095
  too_many_blocks,  // asked: entries of one repetition; limit: 65535
  wrong_size,       // asked: bytes of a fixed-size entry; limit: what they must be
  keeps_entity,     // the device cannot change the size of fixed entries
  too_deep,         // asked: levels of keys; limit: what the device follows
  itself,           // asked: the entry that lies under the key itself
  no_key,           // asked: keys; limit: free ones: the pool is empty, or they wait for an epoch
  queue_failed,     // the queue had an error and has not been recovered
  wrong_kind,       // the key's entries are of another kind than the layout's
  long_window,      // asked: MiB of a memory window; limit: 2048
  beyond_region,    // asked: bytes of a memory window; limit: bytes of the region from there on
  not_bindable,     // the region was registered without mw_bind
  window_rights,    // asked: access bits; limit: those that a window can grant
  read_only,        // the region cannot be written, nor can it be through a window
  zero_based,       // a window of type 1 has the region's addresses and cannot start at 0
  unsigned_rule,    // neither domain is signed
  copies_nothing,   // asked: the copy mask
  long_piece,       // asked: bytes of a piece; limit: 2 GiB, all that a segment or an entry can say
  other_queue,      // asked: queue pair; limit: the one that the window belongs to
  empty_piece,      // a request of one piece that holds nothing; limit: bytes of a message
  long_message,     // asked: bytes, all ones where more; limit: the longest that the queue takes
  many_pieces,      // asked: pieces; limit: what a WQE of this opcode or queue takes
  bad_header,       // asked: bytes of a frame's start in the WQE; limit: the most
  raw_crypto,       // this order of encryption does not go with signatures in both domains
};

struct [[nodiscard]] Outcome {
  Refusal why = Refusal::none;
  uint32_t asked = 0;
  uint32_t limit = 0;

  [[nodiscard]] constexpr bool ok() const noexcept { return why == Refusal::none; }
  // NOLINTNEXTLINE(google-explicit-constructor): most callers ask for no more than yes or no
  constexpr operator bool() const noexcept { return ok(); }
};

// A sentence about the reason, without the numbers. Static storage: it is never freed.
const char* text(Refusal r) noexcept;
// Writes the sentence with its numbers to `out`, cut where that ends and terminated by 0; returns
// its length in bytes without the 0. Slow: not for a burst.
uint32_t describe(const Outcome& outcome, std::span<char> out) noexcept;

}  // namespace kilim::inline v1
