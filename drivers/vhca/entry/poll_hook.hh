// SPDX-License-Identifier: BSD-3-Clause
// Programs that busy-poll run the adapter themselves: a poll that finds its completion queue empty
// runs the adapter and looks again. That saves the second core, and the trap at each doorbell. Put
// in place when a context is opened (ibv_poll_cq) and when an extended queue is made
// (ibv_start_poll). Polling costs nothing more while completions are there. Who asks for the
// adapter's clock has it written first.
#pragma once

#include <infiniband/verbs.h>

namespace kilim::vhca::entry {

// Any context: one of another device is left alone. Null is passed through, errno kept.
ibv_context* hook_polls(ibv_context* context) noexcept;
// A queue of any context, made by another way than ibv_create_cq_ex (mlx5dv_create_cq).
ibv_cq_ex* hook_polls(ibv_cq_ex* cq) noexcept;

}  // namespace kilim::vhca::entry
