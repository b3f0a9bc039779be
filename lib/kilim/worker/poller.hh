// SPDX-License-Identifier: BSD-3-Clause
// Something that a worker runs in turn: a forwarding stream, a device's engine, a clock. A value: a
// function and its context, so that a round costs one indirect call each. Owner: the worker that it
// was given to.
#pragma once

#include <cstdint>

namespace kilim::worker {

struct Poller {
  // Does at most `budget` units of its work; what it did, 0 when idle. Never blocks.
  using Fn = uint32_t (*)(void* context, uint32_t budget) noexcept;

  Fn fn = nullptr;
  void* context = nullptr;
  const char* name = "";
};

}  // namespace kilim::worker
