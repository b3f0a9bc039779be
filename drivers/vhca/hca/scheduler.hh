// SPDX-License-Identifier: BSD-3-Clause
// The engine: finds work by doorbells and timers and runs it, queue after queue in turn. Adapter's
// lock held. Never allocates, never blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/hca/hca.hh"

namespace kilim::vhca {

std::size_t run_engine(Hca&, std::size_t budget) noexcept;

// When a timer wants the engine next (CLOCK_MONOTONIC nanoseconds), UINT64_MAX: never.
uint64_t next_deadline(const Hca&) noexcept;

// Takes a queue off the ready list and the timers.
void forget_work(Hca&, Qp&) noexcept;

}  // namespace kilim::vhca
