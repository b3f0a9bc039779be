// SPDX-License-Identifier: BSD-3-Clause
// The line of the ethdev driver, which only the count of instructions has: kilim-perf is linked
// without that driver. Used by instructions.cc.
#pragma once

#include "perf/compare/line.hh"

namespace kilim::perf {

extern const Line ethdev_line;

}  // namespace kilim::perf
