// SPDX-License-Identifier: BSD-3-Clause
// The command line of kilim-vhca. Parsing only; a refusal is a sentence on stderr.
#pragma once

#include <optional>

#include "vhca/entry/config.hh"

namespace kilim::app {

struct Options {
  vhca::LaunchConfig launch;
  bool mount = false;        // --sysfs mount
  char** command = nullptr;  // with its arguments, null-terminated
  bool help = false;
};

// Nothing: refused, the sentence has been printed.
std::optional<Options> parse(int argc, char** argv);
void print_help();

}  // namespace kilim::app
