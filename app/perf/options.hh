// SPDX-License-Identifier: BSD-3-Clause
// The program's own command line, behind `--`, in perftest's letters. Main thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "cli/options.hh"

namespace kilim::perf {

inline constexpr uint32_t any_gid = ~0u;     // the first one of RoCE v2
inline constexpr uint32_t any_inline = ~0u;  // what the library does by itself

struct Options {
  std::string test;
  std::string host;                   // of the server, behind the test; empty: this is it
  bool alone = false;                 // neither server nor client
  std::string device = "vhca0";       // -d, and behind it by commas:
  std::string wire;                   // wire=, of a virtual device
  std::string lint;                   // lint=
  std::string progress;               // progress=
  std::string connection = "RC";      // -c
  uint32_t port = 18515;              // -p
  uint32_t gid_index = any_gid;       // -x
  uint32_t size = 64;                 // -s
  uint32_t iterations = 5000;         // -n, of each queue
  uint32_t seconds = 0;               // -D, instead of iterations
  uint32_t queues = 1;                // -q
  uint32_t depth = 128;               // -t
  uint32_t list = 32;                 // -l, requests per doorbell
  uint32_t inline_recv = any_inline;  // --inline_recv
  bool rdma_cm = false;               // -R
  bool all_sizes = false;             // -a
  bool check = false;
  bool json = false;
  std::string plan;      // umr: what the chooser is told
  uint32_t seed = 1;     // umr: of the random layouts
  uint32_t samples = 9;  // compare
  std::string only;      // compare: metrics that contain this
};

using cli::Exit;

std::variant<Options, Exit> parse_options(int argc, char** argv);
std::string help_text();

}  // namespace kilim::perf
