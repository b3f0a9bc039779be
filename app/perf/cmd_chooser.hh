// SPDX-License-Identifier: BSD-3-Clause
// Calibrates the library's chooser on a queue of its own, prints it as a table, and tries it on
// random layouts. One thread; control path.
#pragma once

#include "kilim/device.hh"
#include "kilim/worker.hh"
#include "perf/options.hh"

namespace kilim::perf {

// Prints the table; returns an exit code.
int show_plan(const Options& options, device::Device& device);

// Checks the value of --plan: a way to be used wherever it can, or costs like copy.piece=12. Null:
// it is valid.
const char* why_no_plan(const std::string& text);

}  // namespace kilim::perf
