// SPDX-License-Identifier: BSD-3-Clause
// The table of the prompt's commands. A new command is a row in the table of its file; a new file
// is a line in commands.cc. All run on the main thread.
#pragma once

#include <span>

#include "words.hh"

namespace kilim::testpmd {

std::span<const Section> command_table();

// The parts of the table.
extern const Section control_commands, show_commands, set_commands, port_commands, rss_commands,
    offload_commands, flow_commands, kilim_commands, capture_commands, lacking_commands;

}  // namespace kilim::testpmd
