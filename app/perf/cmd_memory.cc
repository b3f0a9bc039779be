// SPDX-License-Identifier: BSD-3-Clause
// Test pool: packet buffers taken and given back 32 at a time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <x86intrin.h>

#include "cli/json.hh"
#include "kilim/base/barrier.hh"
#include "kilim/pool/pool.hh"
#include "perf/command.hh"
#include "perf/compare/measure.hh"

namespace kilim::perf {
namespace {

// The least time of one piece of work; `work` does `each` of them.
template <typename F>
double least_ns(uint32_t samples, uint32_t each, F work) {
  double best = HUGE_VAL;
  const auto enough = static_cast<uint64_t>(sample_ms * 1e6 / ns_per_tick());
  for (uint32_t i = 0; i < samples; i++) {
    uint64_t done = 0, spent = 0;
    const uint64_t from = __rdtsc();
    while (spent < enough) {
      work();
      done += each;
      spent = __rdtsc() - from;
    }
    best = std::min(best, static_cast<double>(spent) * ns_per_tick() / static_cast<double>(done));
  }
  return best;
}

void print(const Options& o, const char* what, double ns) {
  if (o.json)
    cli::JsonObject().text("test", what).real("ns", ns, 3).print();
  else
    std::printf("%-52s %9.2f ns\n", what, ns);
}

int run_pool(const Options& o) {
  constexpr uint32_t buffers = 4096, burst = 32;
  std::vector<std::byte> memory(std::size_t{buffers} * pool::default_stride);
  Result<pool::Arena> arena = pool::Arena::over(memory, pool::default_stride);
  if (!arena) return 1;
  Result<pool::Pool> made =
      pool::Pool::create(*arena, {.name = "perf", .first = 0, .count = buffers});
  if (!made) return 1;
  pool::BufferCache cache(*made);
  std::array<pool::Handle, burst> handles;
  const double ns = least_ns(o.samples, burst * 64, [&] {
    for (uint32_t i = 0; i < 64; i++) {
      (void)cache.alloc(handles, 64);
      forget_registers();
      cache.free(handles);
    }
  });
  print(o, "a buffer taken and given back, 32 at a time", ns);
  return 0;
}

}  // namespace

const Command pool_test = {"pool", "packet buffers, 32 at a time", run_pool};

}  // namespace kilim::perf
