// SPDX-License-Identifier: BSD-3-Clause
// Poller: something that a worker runs once a round: a forwarding stream, a virtual device, a
// clock. A function and its context, so that it costs one indirect call. Owner: the worker that
// runs it.
#pragma once

#include <cstdint>

namespace kilim::worker {

struct Poller {
  // Does at most `budget` units of work and returns how many; 0: idle. Never blocks.
  using Fn = uint32_t (*)(void* context, uint32_t budget) noexcept;

  Fn fn = nullptr;
  void* context = nullptr;
  const char* name = "";
};

}  // namespace kilim::worker
