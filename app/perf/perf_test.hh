// SPDX-License-Identifier: BSD-3-Clause
// A test of kilim-perf is a function in a file of its own and a row in test_table.cc. It prints its
// own results and returns an exit code. Main thread, after EAL has started.
#pragma once

#include <span>
#include <string_view>

#include "options.hh"

namespace kilim::perf {

struct PerfTest {
  const char* name;
  const char* help;
  int (*run)(const Options&);
  bool two_sided = false;  // a host may be named
};

std::span<const PerfTest* const> perf_tests() noexcept;
const PerfTest* find_test(std::string_view name) noexcept;

extern const PerfTest compare_test, umr_test, cq_test, gather_test, lookup_test, pool_test,
    write_test, read_test, send_test, atomic_test, odp_test, relaxed_test;

}  // namespace kilim::perf
