// SPDX-License-Identifier: BSD-3-Clause
// Time by the processor's clock, instructions by its counter.
#include "perf/compare/measure.hh"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include "kilim/detail/base/fd.hh"

namespace kilim::perf {
namespace {

constexpr uint32_t warm_up_rounds = 40;
constexpr double busy_share = 0.05;

// After everything before it has been done.
uint64_t ticks() noexcept {
  unsigned core;
  return __rdtscp(&core);
}

// What a look at the clock itself takes, which is as much as many short polls do.
uint64_t clock_read_ticks() noexcept {
  static const uint64_t least = [] {
    uint64_t found = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
      const uint64_t from = ticks();
      found = std::min(found, ticks() - from);
    }
    return found;
  }();
  return least;
}

// Counts this thread's instructions outside the kernel, where the machine lets us.
class InstructionCounter {
 public:
  InstructionCounter() noexcept {
    perf_event_attr attr{};
    attr.type = PERF_TYPE_HARDWARE;
    attr.size = sizeof attr;
    attr.config = PERF_COUNT_HW_INSTRUCTIONS;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    fd_ = Fd{static_cast<int>(::syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0))};
  }
  [[nodiscard]] bool works() const noexcept { return static_cast<bool>(fd_); }
  uint64_t read() const noexcept {
    uint64_t n = 0;
    return ::read(fd_.get(), &n, sizeof n) == sizeof n ? n : 0;
  }

 private:
  Fd fd_;
};

// Adds what `read` counts during the measured parts of one round; pieces of work done, 0: failed.
template <typename Read>
uint32_t round_of(Rig& r, const Case& c, const Side& side, Read read, uint64_t& sum) {
  if (side.prepare != nullptr && side.prepare(r, c) == 0) return 0;
  uint64_t from = read();
  uint32_t n = side.work(r, c);
  sum += read() - from;
  if (n != 0 && side.second != nullptr) {
    r.device.run();
    from = read();
    n = side.second(r, c);
    sum += read() - from;
  }
  return n != 0 && r.settle() ? n : 0;
}

struct Trial {
  const Side* side;
  Cost cost{.ns = HUGE_VAL};
};

bool sample(Rig& r, const Case& c, Trial& t, uint64_t enough) {
  uint64_t spent = 0, done = 0;
  const uint64_t looks = t.side->second != nullptr ? 2 : 1;
  while (spent < enough) {
    const uint64_t before = spent;
    const uint32_t n = round_of(r, c, *t.side, ticks, spent);
    if (n == 0) return false;
    spent -= std::min(spent - before - 1, looks * clock_read_ticks());
    done += n;
  }
  t.cost.ns =
      std::min(t.cost.ns, static_cast<double>(spent) * ns_per_tick() / static_cast<double>(done));
  return true;
}

bool count_instructions(Rig& r, const Case& c, Trial& t) {
  static const InstructionCounter counter;
  if (!counter.works()) return true;
  uint64_t sum = 0, done = 0;
  for (uint32_t i = 0; i < warm_up_rounds; i++) {
    const uint32_t n = round_of(
        r, c, *t.side, [] { return counter.read(); }, sum);
    if (n == 0) return false;
    done += n;
  }
  t.cost.instructions = static_cast<double>(sum) / static_cast<double>(done);
  return true;
}

// The sides take turns, so that whatever else the machine does meets all of them.
bool measure_case(Rig& r, const Case& c, std::vector<Trial>& trials, uint32_t samples) {
  const auto enough = static_cast<uint64_t>(sample_ms * 1e6 / ns_per_tick());
  uint64_t ignored = 0;
  for (Trial& t : trials)
    for (uint32_t i = 0; i < warm_up_rounds; i++)
      if (round_of(r, c, *t.side, ticks, ignored) == 0) return false;
  for (uint32_t i = 0; i < samples; i++)
    for (Trial& t : trials)
      if (!sample(r, c, t, enough)) return false;
  return std::all_of(trials.begin(), trials.end(),
                     [&](Trial& t) { return count_instructions(r, c, t); });
}

// Trials, Kilim's first, into sums of logarithms.
struct Logs {
  double kilim = 0, peer = 0, instructions = 0;
  bool counted = true;

  void add(const std::vector<Trial>& trials, std::string& name) {
    const auto fastest =
        std::min_element(trials.begin() + 1, trials.end(),
                         [](const Trial& a, const Trial& b) { return a.cost.ns < b.cost.ns; });
    kilim += std::log(trials[0].cost.ns);
    peer += std::log(fastest->cost.ns);
    name = fastest->side->name;
    counted = counted && trials[0].cost.instructions.has_value();
    if (!counted) return;
    double fewest = HUGE_VAL;
    for (std::size_t i = 1; i < trials.size(); i++)
      fewest = std::min(fewest, trials[i].cost.instructions.value_or(HUGE_VAL));
    instructions += std::log(*trials[0].cost.instructions / fewest);
  }
};

double seconds_by(clockid_t clock) noexcept {
  timespec t{};
  (void)clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The thread never sleeps while it measures, so what is not its own processor time others had.
class CoreShare {
 public:
  [[nodiscard]] double away() const noexcept {
    const double passed = seconds_by(CLOCK_MONOTONIC) - wall_;
    const double used = seconds_by(CLOCK_THREAD_CPUTIME_ID) - own_;
    return passed > 0 ? std::clamp(1 - used / passed, 0.0, 1.0) : 0;
  }

 private:
  double wall_ = seconds_by(CLOCK_MONOTONIC);
  double own_ = seconds_by(CLOCK_THREAD_CPUTIME_ID);
};

}  // namespace

std::string verdict(const LineResult& l) {
  if (!l.has_goal()) return "-";
  if (l.met()) return "met";
  if (l.away < busy_share) return "MISSED";
  return "MISSED, busy " + std::to_string(std::lround(l.away * 100)) + " %";
}

std::string goal_text(const LineResult& l) {
  char text[16] = "-";
  if (l.has_goal()) std::snprintf(text, sizeof text, "%.2f", l.line->time_goal);
  return text;
}

double ns_per_tick() noexcept {
  static const double value = [] {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const uint64_t from = __rdtsc();
    while (Clock::now() - start < std::chrono::milliseconds(20)) {
    }
    const uint64_t to = __rdtsc();
    const std::chrono::duration<double, std::nano> ns = Clock::now() - start;
    return ns.count() / static_cast<double>(to - from);
  }();
  return value;
}

std::optional<LineResult> measure_line(Rig& r, const Line& line, uint32_t samples) {
  if (!r.device.set_executing(line.executing)) return std::nullopt;
  LineResult result;
  result.line = &line;
  Logs logs;
  const CoreShare share;
  for (const Case& c : line.cases) {
    std::vector<Trial> trials{{&line.kilim}};
    for (const Side& peer : line.peers) trials.push_back({&peer});
    if (!measure_case(r, c, trials, samples)) return std::nullopt;
    logs.add(trials, result.peer);
  }
  result.away = share.away();
  const auto n = static_cast<double>(line.cases.size());
  result.kilim_ns = std::exp(logs.kilim / n);
  result.peer_ns = std::exp(logs.peer / n);
  if (logs.counted) result.instructions_ratio = std::exp(logs.instructions / n);
  return r.device.set_executing(true) ? std::optional{result} : std::nullopt;
}

}  // namespace kilim::perf
