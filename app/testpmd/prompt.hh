// SPDX-License-Identifier: BSD-3-Clause
// Prompt: reads commands by rte_cmdline, which edits lines, completes words and keeps a history,
// from a terminal, a pipe or a file, and runs them on a session. Main thread; one at a time.
#pragma once

#include <functional>
#include <string>

#include "words.hh"

namespace kilim::testpmd {

// One line; empty lines and comments (#) do nothing.
void run_line(Session& session, const std::string& line);

// Commands of a file, until `quit` or its end. False: it cannot be read.
bool run_file(Session& session, const std::string& path);

// Commands of stdin until `quit`, its end, or until `tick`, which is called every few milliseconds
// of waiting, returns false.
void run_prompt(Session& session, const std::function<bool()>& tick);

}  // namespace kilim::testpmd
