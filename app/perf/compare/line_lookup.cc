// SPDX-License-Identifier: BSD-3-Clause
// Address to key, 1024 regions of 2 MiB in random order: inside the arena against a bare array,
// elsewhere against a table of two levels. The lines that the instruction counts judge; the whole
// comparison is the test lookup.
#include <memory>

#include "perf/compare/line.hh"
#include "perf/compare/lookup_bench.hh"

namespace kilim::perf {
namespace {

// Made at the first round, which is not measured.
LookupBench* bench(uint32_t regions) {
  static std::unique_ptr<LookupBench> made;
  if (!made) {
    auto fresh = std::make_unique<LookupBench>();
    if (fresh->open({.regions = regions}).empty()) made = std::move(fresh);
  }
  return made.get();
}

uint32_t prepare(Rig&, const Case& c) {
  return bench(c.pieces) != nullptr ? 1 : 0;
}

template <uint64_t (LookupBench::*Pass)() const noexcept>
uint32_t pass(Rig&, const Case& c) {
  const LookupBench& b = *bench(c.pieces);
  return (b.*Pass)() != 0 ? b.addresses() : 0;
}

constexpr Case cases[] = {{"1024 regions", 1024}};
constexpr Side arena_peers[] = {{"flat array", pass<&LookupBench::flat>, prepare}};
constexpr Side elsewhere_peers[] = {{"two levels", pass<&LookupBench::two_levels>, prepare}};

}  // namespace

const Line lookup_arena_line = {
    "address to key in the arena / a load",          3.0,        3.0, cases,
    {"find", pass<&LookupBench::in_arena>, prepare}, arena_peers};
const Line lookup_elsewhere_line = {"address to key elsewhere / two levels",
                                    1.0,
                                    1.0,
                                    cases,
                                    {"find", pass<&LookupBench::elsewhere>, prepare},
                                    elsewhere_peers};

}  // namespace kilim::perf
