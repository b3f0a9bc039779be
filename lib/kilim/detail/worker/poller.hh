// SPDX-License-Identifier: BSD-3-Clause
// Poller: something that a worker runs once a round: a forwarding stream, a virtual device, a
// clock. A function and its context, so that it costs one indirect call; and, where it can, how to
// wait until it has work. Owner: the worker that runs it.
#pragma once

#include <cstdint>

#include "kilim/detail/worker/wait_set.hh"

namespace kilim::inline v1::worker {

// How a worker with Idle::sleep waits for a poller. On the worker's thread, in this order: arm() of
// all pollers, one more round of all, watch() of all, sleep. What comes between arm() and the sleep
// ends the sleep at once, or is found by that round: no wake-up is lost.
struct Waiting {
  // Asks to be woken. Null: nothing to ask.
  void (*arm)(void* context) noexcept = nullptr;
  // Adds what the sleep waits for. False: there is work already, or the poller cannot say: no
  // sleep.
  bool (*watch)(void* context, WaitSet& set) noexcept = nullptr;
  // The worker runs the poller no more, for now or for good: others that sleep on it have to look
  // after its work. Null: nobody else runs it.
  void (*leave)(void* context) noexcept = nullptr;
};

struct Poller {
  // Does at most `budget` units of work and returns how many; 0: idle. Never blocks.
  using Fn = uint32_t (*)(void* context, uint32_t budget) noexcept;

  Fn fn = nullptr;
  void* context = nullptr;
  const char* name = "";
  // Null: only looking tells whether there is work, so that a worker with it sleeps for
  // WorkerConfig::sleep_us at a time.
  const Waiting* waiting = nullptr;

  // Says that both run the same function on the same context, whatever their names are.
  [[nodiscard]] bool is(const Poller& other) const noexcept {
    return fn == other.fn && context == other.context;
  }
};

}  // namespace kilim::inline v1::worker
