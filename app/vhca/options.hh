// SPDX-License-Identifier: BSD-3-Clause
// The command line of kilim-vhca. Parsing only; main() says the refusals.
#pragma once

#include <string>
#include <variant>

#include "cli/options.hh"
#include "vhca/entry/config.hh"

namespace kilim::app {

struct Options {
  vhca::entry::LaunchConfig launch;
  bool mount = false;        // --sysfs mount
  bool pci = false;          // --pci
  bool netdev = false;       // --netdev
  bool shared = false;       // --shared
  bool explain = false;      // --explain
  bool no_explain = false;   // --no-explain
  char** command = nullptr;  // with its arguments, null-terminated
};

inline constexpr int exit_refused = 2;  // as of programs that start others: below 126

// The command ends argv, which is null-terminated.
std::variant<Options, cli::Exit> parse(int argc, char** argv);
std::string help_text();

}  // namespace kilim::app
