// SPDX-License-Identifier: BSD-3-Clause
// race: a burst of 32 packets forwarded by Kilim, by net_kilim and by DPDK's net_mlx5, in turns,
// with rings of one size that one emulated NIC serves outside of what is measured. race.py starts
// it under kilim-vhca --pci, where net_mlx5 finds the device that it makes its queues on. Usage:
// race EAL... -- time SAMPLES | count ROUNDS | context SAMPLES BYTES Prints an object of JSON a
// line; `count` leaves the numbers to callgrind's dumps.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <rte_eal.h>
#include <valgrind/callgrind.h>
#include <x86intrin.h>

#include "perf/compare/measure.hh"
#include "perf/race/racers.hh"
#include "perf/race/wqes.hh"

namespace kilim::race {
namespace {

constexpr uint32_t sizes[] = {64, 1518};
constexpr int warm_up = 100;  // rounds: three laps of the rings
constexpr double sample_ticks_ms = 1;

struct Run {
  const char* mode;
  uint32_t bytes;
};

using Forward = uint32_t (*)(void*);

Forward forward_of(const Racer& r, const Run& run) {
  return std::strcmp(run.mode, "io") == 0 ? r.io : r.mac;
}

uint64_t ticks() noexcept {
  unsigned core;
  return __rdtscp(&core);
}

// What two looks at the clock take with nothing in between.
uint64_t clock_ticks() noexcept {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 1000; i++) {
    const uint64_t from = ticks();
    least = std::min(least, ticks() - from);
  }
  return least;
}

// Frames that a kernel carries take a moment.
bool wait_for(const Racer& r, const Run& run) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(2);
  do {
    if (r.serve(r.self.get(), run.bytes) != 0) return true;
  } while (Clock::now() < end);
  std::fprintf(stderr, "race: %s: no packet comes\n", r.name.c_str());
  return false;
}

bool warm(const Racer& r, const Run& run) {
  for (int i = 0; i < warm_up; i++)
    if (!wait_for(r, run) || forward_of(r, run)(r.self.get()) > burst_packets) return false;
  return true;
}

// Nanoseconds a packet of a sample; negative: packets did not come.
double sample(const Racer& r, const Run& run) {
  static const uint64_t look = clock_ticks();
  const auto enough = static_cast<uint64_t>(sample_ticks_ms * 1e6 / perf::ns_per_tick());
  const Forward forward = forward_of(r, run);
  uint64_t spent = 0, done = 0, rounds = 0;
  while (spent < enough) {
    if (!wait_for(r, run)) return -1;
    const uint64_t from = ticks();
    done += forward(r.self.get());
    spent += ticks() - from;
    if (++rounds > 1'000'000) return -1;
  }
  spent -= std::min(spent, rounds * look);
  return done == 0 ? -1
                   : static_cast<double>(spent) * perf::ns_per_tick() / static_cast<double>(done);
}

// The racers take turns, so that whatever else the machine does meets all of them.
bool time_run(const std::vector<Racer>& racers, const Run& run, int samples) {
  std::vector<double> least(racers.size(), HUGE_VAL);
  for (const Racer& r : racers)
    if (!warm(r, run)) return false;
  for (int i = 0; i < samples; i++) {
    for (std::size_t k = 0; k < racers.size(); k++) {
      const double ns = sample(racers[k], run);
      if (ns < 0) return false;
      least[k] = std::min(least[k], ns);
    }
  }
  for (std::size_t k = 0; k < racers.size(); k++)
    std::printf("{\"mode\": \"%s\", \"bytes\": %u, \"side\": \"%s\", \"ns\": %.3f}\n", run.mode,
                run.bytes, racers[k].name.c_str(), least[k]);
  std::fflush(stdout);
  return true;
}

bool count_run(const std::vector<Racer>& racers, const Run& run, int rounds) {
  for (const Racer& r : racers) {
    const Forward forward = forward_of(r, run);
    if (!warm(r, run)) return false;
    CALLGRIND_ZERO_STATS;
    uint64_t done = 0;
    for (int i = 0; i < rounds; i++) {
      if (!wait_for(r, run)) return false;
      CALLGRIND_TOGGLE_COLLECT;
      const uint32_t n = forward(r.self.get());
      CALLGRIND_TOGGLE_COLLECT;
      done += n;
    }
    const std::string mark = std::string(run.mode) + "|" + std::to_string(run.bytes) + "|" +
                             r.name + "|" + std::to_string(done);
    CALLGRIND_DUMP_STATS_AT(mark.c_str());
  }
  return true;
}

// `only`: bytes of the frames, 0: both sizes; of `wqes` the form.
int run_all(const std::string& what, int n, uint32_t only) {
  std::vector<Racer> racers;
  const bool context = what == "context", wqes = what == "wqes";
  std::string why = wqes      ? compare_wqes(static_cast<uint32_t>(n), only)
                    : context ? add_context(racers)
                              : add_native(racers);
  if (why.empty() && !context && !wqes) why = add_mbufs(racers);
  if (!why.empty()) {
    std::fprintf(stderr, "race: %s\n", why.c_str());
    return 1;
  }
  if (wqes) return 0;
  for (const char* mode : {"io", "mac"})
    for (const uint32_t bytes : sizes) {
      const Run run{mode, bytes};
      if (only != 0 && bytes != only) continue;
      if (!(what == "count" ? count_run(racers, run, n) : time_run(racers, run, n))) return 1;
    }
  return 0;
}

int main(int argc, char** argv) {
  const int eal = rte_eal_init(argc, argv);
  if (eal < 0 || argc - eal < 3) {
    std::fprintf(stderr,
                 "Usage: race EAL... -- time SAMPLES | count ROUNDS | context SAMPLES BYTES | wqes "
                 "PACKETS FORM\n");
    return 2;
  }
  const int only = argc - eal > 3 ? std::atoi(argv[eal + 3]) : 0;
  const int code =
      run_all(argv[eal + 1], std::max(1, std::atoi(argv[eal + 2])), static_cast<uint32_t>(only));
  std::fflush(stdout);
  return code;
}

}  // namespace
}  // namespace kilim::race

int main(int argc, char** argv) {
  return kilim::race::main(argc, argv);
}
