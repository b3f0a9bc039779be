// SPDX-License-Identifier: BSD-3-Clause
// perftest's table of bandwidths, or an object a line. One thread; prints to standard output.
#pragma once

#include <cstdint>

#include "exchange.hh"
#include "options.hh"
#include "side.hh"

namespace kilim::perf {

void print_head(const Options& options);
void print_round(const Options& options, uint32_t bytes, const RoundEnd& round,
                 const Inlined& inlined);

}  // namespace kilim::perf
