// SPDX-License-Identifier: BSD-3-Clause
// The tests of kilim-perf: a new one is a file and a row here.
#include "perf_test.hh"

namespace kilim::perf {
namespace {

constexpr const PerfTest* table[] = {
    &compare_test, &umr_test,  &cq_test,   &gather_test, &lookup_test, &pool_test,
    &write_test,   &read_test, &send_test, &atomic_test, &odp_test,    &relaxed_test,
};

}  // namespace

std::span<const PerfTest* const> perf_tests() noexcept {
  return table;
}

const PerfTest* find_test(std::string_view name) noexcept {
  for (const PerfTest* t : table)
    if (name == t->name) return t;
  return nullptr;
}

}  // namespace kilim::perf
