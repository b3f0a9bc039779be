// SPDX-License-Identifier: BSD-3-Clause
// The program's own command line, behind `--`, in perftest's letters. Main thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace kilim::perf {

struct Options {
  std::string test;
  std::string device = "vhca0";   // -d
  uint32_t size = 64;             // -s
  uint32_t iterations = 100'000;  // -n
  uint32_t seconds = 0;           // -D, instead of iterations
  uint32_t depth = 128;           // -t
  uint32_t list = 32;             // -l, requests per doorbell
  bool all_sizes = false;         // -a
  bool json = false;
  uint32_t samples = 9;  // compare
  std::string only;      // compare: metrics that contain this
};

struct Exit {
  int code = 0;
  std::string message;
};

std::variant<Options, Exit> parse_options(int argc, char** argv);
std::string help_text();

}  // namespace kilim::perf
