// SPDX-License-Identifier: BSD-3-Clause
// Test lookup: address to key, Kilim's index in turns with what it is measured against, with the
// goals; and what inserting costs. The least time of each side counts.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include <x86intrin.h>

#include "cli/json.hh"
#include "kilim/detail/base/barrier.hh"
#include "perf/command.hh"
#include "perf/compare/lookup_bench.hh"
#include "perf/compare/measure.hh"

namespace kilim::perf {
namespace {

struct Subject {
  std::function<uint64_t()> pass;
  double ns = HUGE_VAL;
  uint64_t sum = 0;
};

// One sample: passes over all addresses until about 2 ms are over.
void sample(Subject& side, uint32_t each) {
  const auto enough = static_cast<uint64_t>(sample_ms * 1e6 / ns_per_tick());
  uint64_t done = 0, spent = 0;
  const uint64_t from = __rdtsc();
  while (spent < enough) {
    side.sum = side.pass();
    forget_registers();
    done += each;
    spent = __rdtsc() - from;
  }
  side.ns =
      std::min(side.ns, static_cast<double>(spent) * ns_per_tick() / static_cast<double>(done));
}

// A goal of 0 is none; a baseline of 0 ns was not there.
struct Finding {
  const char* what;
  const char* baseline;
  LookupShape shape;
  double ns, baseline_ns, goal;

  [[nodiscard]] double ratio() const noexcept { return ns / baseline_ns; }
  [[nodiscard]] bool met() const noexcept { return goal == 0 || ratio() <= goal; }
};

const char* order_of(const LookupShape& shape) {
  return shape.order == Order::random ? "random" : "sequential";
}

void print_json(const Finding& f) {
  cli::JsonObject all;
  all.text("test", "lookup").text("what", f.what).number("regions", f.shape.regions);
  all.number("region_bytes", f.shape.region_bytes).flag("overlapping", f.shape.overlapping);
  all.text("order", order_of(f.shape)).real("ns", f.ns, 3);
  if (f.baseline_ns == 0)
    all.null("baseline").null("baseline_ns").null("ratio");
  else
    all.text("baseline", f.baseline)
        .real("baseline_ns", f.baseline_ns, 3)
        .real("ratio", f.ratio(), 4);
  if (f.goal == 0)
    all.null("goal").null("met");
  else
    all.real("goal", f.goal, 2).flag("met", f.met());
  all.print();
}

void print_text(const Finding& f) {
  char regions[48];
  std::snprintf(regions, sizeof regions, "%u x %s%s", f.shape.regions,
                f.shape.region_bytes == 4096 ? "4 KiB" : "2 MiB",
                f.shape.overlapping ? ", overlapping" : "");
  std::printf("%-22s %-28s %-10s %8.2f ns", f.what, regions, order_of(f.shape), f.ns);
  if (f.baseline_ns != 0) std::printf(" %9.2f  %6.3f", f.baseline_ns, f.ratio());
  if (f.baseline_ns != 0 && f.goal != 0)
    std::printf("  %5.2f  %-6s", f.goal, f.met() ? "met" : "MISSED");
  std::printf("%s%s\n", f.baseline_ns != 0 ? "  " : "", f.baseline_ns != 0 ? f.baseline : "");
}

class Lookups {
 public:
  explicit Lookups(const Options& options) : options_(options) {}

  bool shape(const LookupShape& shape) {
    LookupBench bench;
    if (const std::string why = bench.open(shape); !why.empty()) return failed(why);
    const bool plain = shape.region_bytes != 4096 && !shape.overlapping;
    std::map<std::string, Subject> sides;
    sides["arena"].pass = [&] { return bench.in_arena(); };
    sides["elsewhere"].pass = [&] { return bench.elsewhere(); };
    sides["front"].pass = [&] { return bench.front(); };
    if (plain) {
      sides["flat"].pass = [&] { return bench.flat(); };
      sides["levels"].pass = [&] { return bench.two_levels(); };
    }
    if (!shape.overlapping) {
      if (why_no_cache_.empty()) why_no_cache_ = bench.open_cache(shape);
      if (why_no_cache_.empty()) sides["rcache"].pass = [&] { return bench.cached(); };
    }
    measure(sides, bench.addresses());
    if (plain && sides["arena"].sum != sides["flat"].sum) return failed("the keys differ");
    if (plain && sides["levels"].sum != sides["flat"].sum) return failed("the keys differ");
    if (sides["elsewhere"].sum != sides["arena"].sum || sides["front"].sum != sides["arena"].sum)
      return failed("the keys differ");
    report(shape, plain, sides);
    return true;
  }

  // What random lookups over many regions cost against few.
  void growth() {
    const LookupShape many{.regions = 65536};
    print({"arena", "16 random", many, random_arena_[65536], random_arena_[16], 1.6});
    print({"elsewhere", "16 random", many, random_elsewhere_[65536], random_elsewhere_[16], 1.6});
  }

  bool inserts() {
    double added[2] = {HUGE_VAL, HUGE_VAL}, removed[2] = {HUGE_VAL, HUGE_VAL};
    constexpr uint32_t counts[2] = {1024, 65536};
    for (uint32_t s = 0; s < options_.samples; s++)
      for (int i = 0; i < 2; i++)
        if (!insert(counts[i], added[i], removed[i])) return failed("a region is refused");
    const LookupShape many{.regions = counts[1], .order = Order::sequential};
    print({"mean insert", "1024 regions", many, added[1], added[0], 3});
    print({"mean removal", "1024 regions", many, removed[1], removed[0], 0});
    return true;
  }

  [[nodiscard]] const std::string& why_no_cache() const noexcept { return why_no_cache_; }

 private:
  static bool failed(const std::string& why) {
    std::fprintf(stderr, "kilim-perf: lookup: %s\n", why.c_str());
    return false;
  }
  void measure(std::map<std::string, Subject>& sides, uint32_t each) const {
    for (auto& [name, side] : sides) side.sum = side.pass();
    for (uint32_t i = 0; i < options_.samples; i++)
      for (auto& [name, side] : sides) sample(side, each);
  }
  void print(const Finding& f) const {
    (options_.json ? print_json : print_text)(f);
    std::fflush(stdout);
  }
  void report(const LookupShape& shape, bool plain, std::map<std::string, Subject>& sides) {
    const double arena = sides["arena"].ns, elsewhere = sides["elsewhere"].ns;
    const double cache = sides.count("rcache") != 0 ? sides["rcache"].ns : 0;
    if (plain) {
      print({"arena", "flat array", shape, arena, sides["flat"].ns, 3});
      print({"elsewhere", "two levels as SPDK", shape, elsewhere, sides["levels"].ns, 1});
      if (shape.order == Order::random) {
        random_arena_[shape.regions] = arena;
        random_elsewhere_[shape.regions] = elsewhere;
      }
    } else {
      print({"arena", "", shape, arena, 0, 0});
    }
    print({"elsewhere", "ucs_rcache get + put", shape, elsewhere, cache, plain ? 0.06 : 0});
    print({"front", "elsewhere", shape, sides["front"].ns, elsewhere, 0});
  }
  static bool insert(uint32_t count, double& added, double& removed) {
    auto index = lookup::Index::create({});
    if (!index) return false;
    const LookupShape shape{.regions = count};
    const auto per = [&](uint64_t from) {
      return static_cast<double>(__rdtsc() - from) * ns_per_tick() / count;
    };
    uint64_t from = __rdtsc();
    for (uint32_t i = 0; i < count; i++)
      if (!(*index)->add(shape.region(i))) return false;
    added = std::min(added, per(from));
    from = __rdtsc();
    for (uint32_t i = 0; i < count; i++)
      if (!(*index)->remove(shape.region(i).lkey)) return false;
    removed = std::min(removed, per(from));
    return true;
  }

  const Options& options_;
  std::string why_no_cache_;
  std::map<uint32_t, double> random_arena_, random_elsewhere_;
};

int run_lookup(const Options& o) {
  if (!o.json)
    std::printf("%-22s %-28s %-10s %11s %9s  %6s  %5s\n", "lookup", "regions", "order", "Kilim",
                "baseline", "ratio", "goal");
  Lookups lookups{o};
  constexpr Order orders[] = {Order::sequential, Order::random};
  for (const uint32_t regions : {1u, 16u, 1024u, 65536u})
    for (const Order order : orders)
      if (!lookups.shape({.regions = regions, .order = order})) return 1;
  lookups.growth();
  if (!lookups.inserts()) return 1;
  for (const uint32_t regions : {16u, 1024u, 65536u}) {
    if (!lookups.shape({.regions = regions, .region_bytes = 4096})) return 1;
    if (!lookups.shape({.regions = regions, .overlapping = true})) return 1;
  }
  if (!lookups.why_no_cache().empty())
    std::fprintf(stderr, "kilim-perf: lookup: not against ucs_rcache: %s\n",
                 lookups.why_no_cache().c_str());
  return 0;
}

}  // namespace

const Command lookup_test = {"lookup", "address to key, against three baselines, with the goals",
                             run_lookup};

}  // namespace kilim::perf
