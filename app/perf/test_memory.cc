// SPDX-License-Identifier: BSD-3-Clause
// Tests lookup and pool: address to key over 1024 regions in random order; packet buffers taken and
// given back 32 at a time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include <x86intrin.h>

#include "kilim/base/barrier.hh"
#include "kilim/mr/flat_index.hh"
#include "kilim/pool/pool.hh"
#include "measure.hh"
#include "perf_test.hh"

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
  std::printf(o.json ? "{\"test\": \"%s\", \"ns\": %.3f}\n" : "%-52s %9.2f ns\n", what, ns);
}

int run_lookup(const Options& o) {
  constexpr uint64_t base = uint64_t{1} << 40, block = uint64_t{2} << 20, regions = 1024;
  Result<mr::FlatIndex> index = mr::FlatIndex::create(base, regions * block, block);
  if (!index) return 1;
  for (uint64_t i = 0; i < regions; i++) {
    mr::Region r{};
    r.address = base + i * block;
    r.length = block;
    r.iova = base + i * block;
    r.lkey = Lkey{static_cast<uint32_t>(0x1000 + i)};
    if (!index->add(r)) return 1;
  }
  std::vector<uint64_t> addresses(4096);
  std::mt19937_64 random{1};
  for (uint64_t& a : addresses) a = base + random() % (regions * block);
  uint32_t sum = 0;
  const double ns = least_ns(o.samples, 4096, [&] {
    for (const uint64_t a : addresses) sum += index->find(a).value();
    forget_registers();
  });
  print(o, "address to key, 1024 regions, random", ns);
  return sum != 0 ? 0 : 1;
}

int run_pool(const Options& o) {
  constexpr uint32_t buffers = 4096, burst = 32;
  std::vector<std::byte> memory(std::size_t{buffers} * pool::default_stride);
  Result<pool::Arena> arena = pool::Arena::over(memory, pool::default_stride);
  if (!arena) return 1;
  Result<pool::Pool> made =
      pool::Pool::create(*arena, {.name = "perf", .first = 0, .count = buffers});
  if (!made) return 1;
  pool::Stash stash(*made);
  std::array<pool::Handle, burst> handles;
  const double ns = least_ns(o.samples, burst * 64, [&] {
    for (uint32_t i = 0; i < 64; i++) {
      (void)stash.alloc(handles, 64);
      forget_registers();
      stash.free(handles);
    }
  });
  print(o, "a buffer taken and given back, 32 at a time", ns);
  return 0;
}

}  // namespace

const PerfTest lookup_test = {"lookup", "address to key", run_lookup};
const PerfTest pool_test = {"pool", "packet buffers, 32 at a time", run_pool};

}  // namespace kilim::perf
