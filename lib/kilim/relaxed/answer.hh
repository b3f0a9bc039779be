// SPDX-License-Identifier: BSD-3-Clause
// Why a relaxed region was not made. A value in a register; the errno and the sentence are for who
// has time. Pure values, any thread.
#pragma once

#include <cstdint>

namespace kilim::relaxed {

enum class Answer : uint8_t {
  done,
  dry,           // no key: all are used, or wait for their invalidation, or for workers and queues
  no_room,       // the send queue is full
  bad_range,     // empty, or wraps
  bad_access,    // a right that a region cannot have, or remote writing without local writing
  not_covered,   // no arena holds the memory, and none can be made
  too_long,      // more entries than a key has
  queue_failed,  // the send queue had an error and has not been recovered
};

// A positive errno value; 0 for `done`. EAGAIN: later it may work.
int errno_of(Answer a) noexcept;
const char* text(Answer a) noexcept;

}  // namespace kilim::relaxed
