// SPDX-License-Identifier: BSD-3-Clause
// race: a burst of 32 packets forwarded by Kilim, by net_kilim and by DPDK's net_mlx5, in turns,
// with rings of one size that one emulated NIC serves outside of what is measured. race.py starts
// it under kilim-vhca --pci, where net_mlx5 finds the device that it makes its queues on. Usage:
// race EAL... -- count ROUNDS FORM | time SAMPLES FORM | check PACKETS FORM | context SAMPLES BYTES
// | wqes PACKETS NUMBER. FORM: single, compressed, or the name of a setting. Prints an object of
// JSON a line; `count` leaves the numbers to callgrind's dumps.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <rte_eal.h>
#include <valgrind/callgrind.h>
#include <x86intrin.h>

#include "perf/compare/measure.hh"
#include "perf/race/check.hh"
#include "perf/race/racers.hh"
#include "perf/race/wqes.hh"

namespace kilim::race {
namespace {

constexpr int warm_up = 100;  // rounds: three laps of the rings
constexpr double sample_ticks_ms = 1;
// A demoted line that is read in less than so many times a hot one's time was not moved out.
constexpr double least_of_l3 = 3;

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
bool wait_for(const Racer& r, const Setting& s) {
  using Clock = std::chrono::steady_clock;
  if (r.nic != nullptr && turn(*r.nic, s) != 0) return true;
  const auto end = Clock::now() + std::chrono::seconds(2);
  while (r.serve != nullptr && Clock::now() < end)
    if (r.serve(r.self.get(), s.bytes) != 0) return true;
  std::fprintf(stderr, "race: %s, %s: no packet comes\n", s.name.data(), r.name.c_str());
  return false;
}

bool warm(const Racer& r, const Setting& s) {
  for (int i = 0; i < warm_up; i++)
    if (!wait_for(r, s) || r.forward(r.self.get()) > burst_packets) return false;
  return true;
}

// Nanoseconds a packet of a sample; negative: packets did not come.
double sample(const Racer& r, const Setting& s) {
  static const uint64_t look = clock_ticks();
  const auto enough = static_cast<uint64_t>(sample_ticks_ms * 1e6 / perf::ns_per_tick());
  uint64_t spent = 0, done = 0, rounds = 0;
  while (spent < enough) {
    if (!wait_for(r, s)) return -1;
    const uint64_t from = ticks();
    done += r.forward(r.self.get());
    spent += ticks() - from;
    if (++rounds > 1'000'000) return -1;
  }
  spent -= std::min(spent, rounds * look);
  return done == 0 ? -1
                   : static_cast<double>(spent) * perf::ns_per_tick() / static_cast<double>(done);
}

// The racers take turns, so that whatever else the machine does meets all of them.
bool time_at(const std::vector<Racer>& racers, const Setting& s, int samples, const char* level) {
  std::vector<double> least(racers.size(), HUGE_VAL);
  for (const Racer& r : racers)
    if (!warm(r, s)) return false;
  for (int i = 0; i < samples; i++) {
    for (std::size_t k = 0; k < racers.size(); k++) {
      const double ns = sample(racers[k], s);
      if (ns < 0) return false;
      least[k] = std::min(least[k], ns);
    }
  }
  for (std::size_t k = 0; k < racers.size(); k++)
    std::printf(
        "{\"setting\": \"%s\", \"bytes\": %u, \"level\": \"%s\", \"side\": \"%s\", \"ns\": %.3f}\n",
        s.name.data(), s.bytes, level, racers[k].name.c_str(), least[k]);
  std::fflush(stdout);
  return true;
}

struct Place {
  Level level;
  const char* name;
};
constexpr Place places[] = {{Level::hot, "hot"}, {Level::l3, "L3"}, {Level::memory, "memory"}};

// There is nothing to be measured where a demoted line stays hot.
bool reaches(Level level) {
  static const double hot = read_ns(Level::hot), demoted = read_ns(Level::l3);
  return level != Level::l3 || demoted >= least_of_l3 * hot;
}

void tell_levels() {
  std::printf("{\"read_ns\": {");
  for (const Place& p : places)
    std::printf("%s\"%s\": %.1f", &p == places ? "" : ", ", p.name, read_ns(p.level));
  std::printf("}, \"reaches L3\": %s}\n", reaches(Level::l3) ? "true" : "false");
}

bool time_run(const std::vector<Racer>& racers, const Setting& s, int samples) {
  for (const Place& p : places) {
    if (!reaches(p.level)) continue;
    for (const Racer& r : racers)
      if (r.nic != nullptr) r.nic->set_level(p.level);
    if (!time_at(racers, s, samples, p.name)) return false;
    if (racers[0].nic == nullptr) break;
  }
  return true;
}

bool count_run(const std::vector<Racer>& racers, const Setting& s, int rounds) {
  for (const Racer& r : racers) {
    if (!warm(r, s)) return false;
    CALLGRIND_ZERO_STATS;
    uint64_t done = 0;
    for (int i = 0; i < rounds; i++) {
      if (!wait_for(r, s)) return false;
      CALLGRIND_TOGGLE_COLLECT;
      const uint32_t n = r.forward(r.self.get());
      CALLGRIND_TOGGLE_COLLECT;
      done += n;
    }
    const std::string mark = std::string(s.name) + "|" + r.name + "|" + std::to_string(done);
    CALLGRIND_DUMP_STATS_AT(mark.c_str());
  }
  return true;
}

bool check_run(const std::vector<Racer>& racers, const Setting& s, uint32_t packets) {
  std::string why = check_sends(racers, s);
  for (std::size_t i = 0; i < racers.size() && why.empty(); i++)
    why = check_fields(racers[i], s, packets);
  if (why.empty()) {
    std::printf("{\"setting\": \"%s\", \"checked\": %u}\n", s.name.data(), packets);
    return true;
  }
  std::fprintf(stderr, "race: %s: %s\n", s.name.data(), why.c_str());
  return false;
}

// DPDK's vectors are the peer: a receive burst without them is another race.
bool tell_bursts(const std::vector<Racer>& racers, const Setting& s) {
  for (const Racer& r : racers) {
    if (!r.is_peer) continue;
    std::printf("{\"setting\": \"%s\", \"bursts of %s\": \"%s\"}\n", s.name.data(), r.name.c_str(),
                r.bursts.c_str());
    if (r.bursts.find("Vector") != std::string::npos) continue;
    std::fprintf(stderr, "race: %s: %s receives by \"%s\", without vectors\n", s.name.data(),
                 r.name.c_str(), r.bursts.c_str());
    return false;
  }
  return true;
}

bool run(const std::string& what, const Setting& s, int n) {
  std::vector<Racer> racers;
  std::string why = what == "context" ? add_context(racers, s) : add_native(racers, s);
  if (why.empty() && what != "context") why = add_mbufs(racers, s);
  if (!why.empty()) {
    std::fprintf(stderr, "race: %s: %s\n", s.name.data(), why.c_str());
    return false;
  }
  if (!tell_bursts(racers, s)) return false;
  if (what == "count") return count_run(racers, s, n);
  if (what == "check") return check_run(racers, s, static_cast<uint32_t>(n));
  return time_run(racers, s, n);
}

// Drivers for context offer the four oldest settings, of frames of one length.
bool is_asked(const std::string& what, const std::string& word, const Setting& s) {
  if (what == "context")
    return std::to_string(s.bytes) == word &&
           (s.name.starts_with("io") || s.name.starts_with("mac"));
  return s.name == word || (word == "single" && s.is_single()) ||
         (word == "compressed" && !s.is_single());
}

int usage() {
  std::fprintf(stderr,
               "Usage: race EAL... -- count ROUNDS FORM | time SAMPLES FORM | check PACKETS FORM | "
               "context SAMPLES BYTES | wqes PACKETS NUMBER\n");
  return 2;
}

int main(int argc, char** argv) {
  const int eal = rte_eal_init(argc, argv);
  if (eal < 0 || argc - eal != 4) return usage();
  const std::string what = argv[eal + 1], word = argv[eal + 3];
  const int n = std::max(1, std::atoi(argv[eal + 2]));
  if (what == "wqes") {
    const std::string why =
        compare_wqes(static_cast<uint32_t>(n), static_cast<uint32_t>(std::atoi(word.c_str())));
    if (!why.empty()) std::fprintf(stderr, "race: %s\n", why.c_str());
    return why.empty() ? 0 : 1;
  }
  if (what == "time") tell_levels();
  for (const Setting& s : settings)
    if (is_asked(what, word, s) && !run(what, s, n)) return 1;
  std::fflush(stdout);
  return 0;
}

}  // namespace
}  // namespace kilim::race

int main(int argc, char** argv) {
  return kilim::race::main(argc, argv);
}
