// SPDX-License-Identifier: BSD-3-Clause
// Runs a round of messages from one side: posts them in lists of one doorbell each and polls
// completions, until a number is done or the time is over. One thread; allocates only before and
// after.
#pragma once

#include <cstdint>

#include "kilim/queue.hh"
#include "perf/two_sided/exchange.hh"
#include "perf/two_sided/side.hh"

namespace kilim::perf {

struct RoundPlan {
  uint32_t bytes = 0;
  uint64_t messages = 0;  // in each queue
  uint32_t seconds = 0;   // instead, where not 0
  uint32_t list = 1;      // messages a doorbell
};

// `target`: the peer's open memory. If something fails, `side` has the reason and the result is
// invalid.
RoundEnd run_round(Side& side, const queue::Remote& target, const RoundPlan& plan);

}  // namespace kilim::perf
