// SPDX-License-Identifier: BSD-3-Clause
// A round of messages from one side: posted in lists, a doorbell each, completions taken, until so
// many are done or the time is over. One thread; allocates before and after, not in between.
#pragma once

#include <cstdint>

#include "exchange.hh"
#include "kilim/queue/rc_wqe.hh"
#include "side.hh"

namespace kilim::perf {

struct RoundPlan {
  uint32_t bytes = 0;
  uint64_t messages = 0;  // in each queue
  uint32_t seconds = 0;   // instead, where not 0
  uint32_t list = 1;      // messages a doorbell
};

// What the peer opened: its address and key.
// Where something fails the side knows why; then the result means nothing.
RoundEnd run_round(Side& side, const queue::Remote& target, const RoundPlan& plan);

}  // namespace kilim::perf
