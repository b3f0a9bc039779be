// SPDX-License-Identifier: BSD-3-Clause
// The library's chooser on a device: calibrated on a queue of its own, shown as a table, tried on
// random layouts. One thread; control path.
#pragma once

#include "kilim/device/device.hh"
#include "kilim/worker/poller.hh"
#include "options.hh"

namespace kilim::perf {

// Prints; an exit code.
int show_plan(const Options& options, device::Device& device);

// Of --plan: a way to go wherever it is open, or costs like copy.piece=12. Null: it is understood.
const char* why_no_plan(const std::string& text);

}  // namespace kilim::perf
