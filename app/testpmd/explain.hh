// SPDX-License-Identifier: BSD-3-Clause
// What `explain last` says of a port. Main thread, also while workers forward.
#pragma once

#include <string>

#include "kilim/port.hh"

namespace kilim::testpmd {

// Counts of completions with an error, and the last receive, send and bind that ended so: why, by
// syndrome and memory keys, its work request in words and in bytes. Empty: there was none.
std::string explain_errors(port::Port& port);

}  // namespace kilim::testpmd
