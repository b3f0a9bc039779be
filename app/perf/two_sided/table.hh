// SPDX-License-Identifier: BSD-3-Clause
// Prints perftest's table of bandwidths, or one JSON object a line. One thread; standard output.
#pragma once

#include <cstdint>

#include "perf/options.hh"
#include "perf/two_sided/exchange.hh"
#include "perf/two_sided/side.hh"

namespace kilim::perf {

void print_head(const Options& options);
void print_round(const Options& options, uint32_t bytes, const RoundEnd& round,
                 const Inlined& inlined);

}  // namespace kilim::perf
