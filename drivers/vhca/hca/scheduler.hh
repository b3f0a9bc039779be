// SPDX-License-Identifier: BSD-3-Clause
// The engine: finds work by doorbells and timers and runs it, queue after queue in turn. Adapter's
// lock held. Never allocates, never blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/hca/hca.hh"

namespace kilim::vhca::hca {

std::size_t run_engine(Hca&, std::size_t budget) noexcept;

// When a timer wants the engine next (CLOCK_MONOTONIC nanoseconds), UINT64_MAX: never.
uint64_t next_deadline(const Hca&) noexcept;

// Executes what was rung on a send queue that is about to end, as far as it can go: not what waits
// for a page or a peer. While the wire is full it sleeps, a second at most. A card reads
// a request about a microsecond after its doorbell, long before the command that destroys the
// queue: a program may send its last words and destroy the queue without asking for their
// completion (libfabric's ofi_rxd does with its last acknowledgement).
void send_rung(Hca&, wq::Qp&) noexcept;

// Takes a queue off the ready list and the timers.
void forget_work(Hca&, wq::Qp&) noexcept;

}  // namespace kilim::vhca::hca
