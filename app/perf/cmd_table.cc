// SPDX-License-Identifier: BSD-3-Clause
// The tests of kilim-perf: a new one is a file and a row here.
#include "perf/command.hh"

namespace kilim::perf {
namespace {

constexpr const Command* table[] = {
    &compare_test, &umr_test,  &cq_test,   &gather_test, &lookup_test, &pool_test,    &packet_test,
    &write_test,   &read_test, &send_test, &atomic_test, &odp_test,    &relaxed_test,
};

}  // namespace

std::span<const Command* const> perf_tests() noexcept {
  return table;
}

const Command* find_test(std::string_view name) noexcept {
  for (const Command* t : table)
    if (name == t->name) return t;
  return nullptr;
}

}  // namespace kilim::perf
