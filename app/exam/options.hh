// SPDX-License-Identifier: BSD-3-Clause
// The command line of kilim-exam. Parsing only; main() says the refusals.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cli/options.hh"

namespace kilim::exam {

inline constexpr int exit_differs = 1, exit_refused = 2;

struct Options {
  std::string device, peer, out, html;
  std::vector<std::string> only;     // ids; empty: all
  std::vector<std::string> reports;  // of --compare: one or two
  bool disturb = false, destroy = false, cable = false, keep_names = false, list = false;
  uint32_t effort = 1;
  uint32_t limit = 0;  // seconds of each question; 0: as its row says
};

std::variant<Options, cli::Exit> parse(int argc, char** argv);
std::string help_text();

}  // namespace kilim::exam
