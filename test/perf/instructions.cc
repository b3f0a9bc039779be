// SPDX-License-Identifier: BSD-3-Clause
// Runs every line of the comparison under callgrind, which counts instructions between the marks
// set here and writes them to a file of its own for each way of each case. instructions.py starts
// this program and judges the counts.
// Usage: instructions ROUNDS [METRIC...]    the metrics that contain one of the words; none: all
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include <dlfcn.h>
#include <pthread.h>
#include <valgrind/callgrind.h>

#include "eal.hh"
#include "perf/compare/line.hh"
#include "perf/device/lines.hh"

// Of ethdev_line.cc: kilim-perf is linked without that driver.
namespace kilim::perf {
extern const Line ethdev_line;
}

namespace {
uint64_t locks = 0;
}

// In the place of libpthread's: neither side of a line may lock in what is counted.
extern "C" int pthread_spin_lock(pthread_spinlock_t* lock) {
  using Lock = int (*)(pthread_spinlock_t*);
  static const auto real = reinterpret_cast<Lock>(::dlsym(RTLD_NEXT, "pthread_spin_lock"));
  locks++;
  return real(lock);
}

namespace {

using namespace kilim::perf;

// Rounds before counting starts: caches, lazily bound functions, first passes over the rings.
constexpr int warm_up = 40;

bool one_round(Rig& r, const Case& c, const Side& side, bool counted, uint64_t& done) {
  if (side.prepare != nullptr && side.prepare(r, c) == 0) return false;
  const uint64_t before = locks;
  if (counted) CALLGRIND_TOGGLE_COLLECT;
  uint32_t n = side.work(r, c);
  if (counted) CALLGRIND_TOGGLE_COLLECT;
  if (n != 0 && side.second != nullptr) {
    r.device.run();
    if (counted) CALLGRIND_TOGGLE_COLLECT;
    n = side.second(r, c);
    if (counted) CALLGRIND_TOGGLE_COLLECT;
  }
  done += n;
  if (locks != before) {
    std::fprintf(stderr, "%s: a side takes a lock\n", side.name);
    return false;
  }
  return n != 0 && r.settle();
}

bool count(Rig& r, const Line& line, const Case& c, const Side& side, int rounds) {
  uint64_t done = 0;
  for (int i = 0; i < warm_up; i++)
    if (!one_round(r, c, side, false, done)) return false;
  CALLGRIND_ZERO_STATS;
  done = 0;
  for (int i = 0; i < rounds; i++)
    if (!one_round(r, c, side, true, done)) return false;
  const bool ours = &side == &line.kilim;
  const std::string mark = std::string(line.metric) + "|" + c.name + "|" +
                           (ours ? "kilim " : "libmlx5 ") + side.name + "|" + std::to_string(done);
  CALLGRIND_DUMP_STATS_AT(mark.c_str());
  return true;
}

bool count_line(Rig& r, const Line& line, int rounds) {
  for (const Case& c : line.cases) {
    if (!count(r, line, c, line.kilim, rounds)) return false;
    for (const Side& peer : line.peers)
      if (!count(r, line, c, peer, rounds)) return false;
  }
  return true;
}

// argv[2] and on.
std::span<char*> words;

bool is_wanted(const Line& line) {
  for (const char* word : words)
    if (std::strstr(line.metric, word) != nullptr) return true;
  return words.empty();
}

bool count_goal(Rig& r, const Line& line, int rounds) {
  if (line.instruction_goal == 0 && line.most_instructions == 0) return true;
  if (!is_wanted(line)) return true;
  (void)r.device.set_executing(true);
  std::printf("goal|%s|%g|%g\n", line.metric, line.instruction_goal, line.most_instructions);
  if (count_line(r, line, rounds)) return true;
  std::fprintf(stderr, "%s: a request failed\n", line.metric);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  if (argc > 2) words = {argv + 2, static_cast<std::size_t>(argc) - 2};
  if (!kilim::test::start_eal()) return 1;
  static Rig rig;
  if (const std::string why = rig.open("perf0"); !why.empty()) {
    std::fprintf(stderr, "%s\n", why.c_str());
    return 1;
  }
  for (const Line* line : lines())
    if (!count_goal(rig, *line, rounds)) return 1;
  for (const Line& line : packet_lines())
    if (!count_goal(rig, line, rounds)) return 1;
  for (const Line* line : device_lines())
    if (!count_goal(rig, *line, rounds)) return 1;
  return count_goal(rig, ethdev_line, rounds) ? 0 : 1;
}
