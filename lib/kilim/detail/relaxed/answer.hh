// SPDX-License-Identifier: BSD-3-Clause
// Answer: whether a relaxed region was registered; if not, why. One byte on a measured path, hence
// not an Outcome (doc/decisions/0024-words-and-rooms.md). Pure values, any thread.
#pragma once

#include <cstdint>

namespace kilim::inline v1::relaxed {

enum class Answer : uint8_t {
  done,
  dry,           // no key is free: all are in use, or wait for an invalidation or an epoch
  no_room,       // the send queue is full
  bad_range,     // the range is empty or wraps
  bad_access,    // a right that a region cannot have, or remote writing without local writing
  not_covered,   // no arena contains the memory, and none can be made
  too_long,      // the list needs more entries than the key has
  queue_failed,  // the send queue had an error and has not been recovered
};

// errno_of(): a positive errno value, 0 for `done`; EAGAIN: it may work later. text(): a sentence
// for people, in static storage.
int errno_of(Answer a) noexcept;
const char* text(Answer a) noexcept;

}  // namespace kilim::inline v1::relaxed
