// SPDX-License-Identifier: BSD-3-Clause
#include "perf/race/level.hh"

#include <algorithm>
#include <array>
#include <vector>

#include <immintrin.h>
#include <x86intrin.h>

#include "kilim/detail/base/barrier.hh"
#include "perf/compare/measure.hh"

namespace kilim::race {
namespace {

// Processors without the instruction take it for a NOP (Intel SDM, "CLDEMOTE").
[[gnu::target("cldemote"), gnu::noinline]] void demote(const void* line) noexcept {
  _cldemote(const_cast<void*>(line));
}
[[gnu::target("clflushopt"), gnu::noinline]] void flush(const void* line) noexcept {
  _mm_clflushopt(const_cast<void*>(line));
}

struct alignas(64) Line {
  const Line* next;
};

}  // namespace

void evict(const void* line, Level level) noexcept {
  if (level == Level::l3) demote(line);
  if (level == Level::memory) flush(line);
}

double read_ns(Level level) noexcept {
  // Far apart and in no order that a prefetcher knows.
  constexpr std::size_t lines = 256, apart = 67;
  static std::vector<Line> memory(lines * apart);
  std::array<double, 101> seen{};
  for (double& ns : seen) {
    const Line* last = nullptr;
    for (std::size_t i = 0; i < lines; i++) {
      Line& line = memory[i * 89 % lines * apart];
      line.next = last;
      last = &line;
    }
    for (const Line* l = last; l != nullptr;) {
      const Line* const next = l->next;
      evict(l, level);
      l = next;
    }
    store_before_load();
    unsigned core;
    const uint64_t from = __rdtscp(&core);
    for (const Line* l = last; l != nullptr; l = l->next) forget_registers();
    ns = static_cast<double>(__rdtscp(&core) - from) * perf::ns_per_tick() / lines;
  }
  std::nth_element(seen.begin(), seen.begin() + seen.size() / 2, seen.end());
  return seen[seen.size() / 2];
}

}  // namespace kilim::race
