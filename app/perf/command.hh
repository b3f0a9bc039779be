// SPDX-License-Identifier: BSD-3-Clause
// A command (the help says test) of kilim-perf is a function in a file of its own and a row in
// cmd_table.cc. It prints its own results and returns an exit code. Main thread, after EAL has
// started.
#pragma once

#include <span>
#include <string_view>

#include "perf/options.hh"

namespace kilim::perf {

struct Command {
  const char* name;
  const char* help;
  int (*run)(const Options&);
  bool two_sided = false;  // a host may be named
  // Measures before EAL starts, which loads drivers that change what libibverbs does. May be null.
  void (*before_eal)(const Options&) = nullptr;
};

std::span<const Command* const> perf_tests() noexcept;
const Command* find_test(std::string_view name) noexcept;

extern const Command compare_test, umr_test, cq_test, gather_test, lookup_test, pool_test,
    write_test, read_test, send_test, atomic_test, odp_test, relaxed_test, packet_test;

}  // namespace kilim::perf
