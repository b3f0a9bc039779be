// SPDX-License-Identifier: BSD-3-Clause
#include "chooser.hh"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "kilim/mem/block.hh"
#include "kilim/mr/registrar.hh"
#include "kilim/umr/plan.hh"
#include "kilim/umr/plan_bench.hh"
#include "lane.hh"

namespace kilim::perf {
namespace {

using umr::Way;

constexpr uint32_t layouts = 30;
constexpr uint32_t rounds = 5;  // in which a layout is tried by all ways in turns

int refuse(const char* what, const char* why) {
  std::fprintf(stderr, "kilim-perf: %s: %s\n", what, why);
  return 1;
}

// Keys that go back where they came from.
struct Keys {
  explicit Keys(mr::KeySource& from) noexcept : source(from) {}
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys() { source.destroy_keys({all.data(), count}); }
  void make(uint32_t max_entries) {
    if (source.create_keys(max_entries, all)) count = all.size();
  }
  mr::KeySource& source;
  std::array<mr::IndirectMkey, umr::bench_keys> all;
  std::size_t count = 0;
};

// ---- what --plan says

struct Term {
  const char* name;
  float umr::WayCost::*cost;
};
constexpr Term terms[] = {{"fixed", &umr::WayCost::fixed},   {"piece", &umr::WayCost::piece},
                          {"more", &umr::WayCost::more},     {"near", &umr::WayCost::near},
                          {"middle", &umr::WayCost::middle}, {"far", &umr::WayCost::far}};

// One word, copy or copy.piece=12; false: it is not understood.
bool apply_word(const std::string& word, umr::Plan& plan) {
  const std::size_t dot = word.find('.');
  const Way way = umr::way_named(word.substr(0, dot).c_str());
  if (way == Way::none) return false;
  if (dot == std::string::npos) {
    plan.force(way);
    return true;
  }
  const std::size_t equals = std::min(word.find('=', dot), word.size());
  float ns = 0;
  const char* end = word.data() + word.size();
  const char* from = std::min(word.data() + equals + 1, end);
  const auto [at, error] = std::from_chars(from, end, ns);
  if (error != std::errc{} || at != end || !std::isfinite(ns) || ns < 0) return false;
  const std::string name = word.substr(dot + 1, equals - dot - 1);
  for (const Term& t : terms) {
    if (name != t.name) continue;
    umr::WayCost cost = plan.costs()[static_cast<uint32_t>(way)];
    cost.*t.cost = ns;
    plan.set_cost(way, cost);
    return true;
  }
  return false;
}

bool apply(const std::string& text, umr::Plan& plan) {
  for (std::size_t at = 0, end = 0; end != text.size(); at = end + 1) {
    end = std::min(text.find(',', at), text.size());
    if (!apply_word(text.substr(at, end - at), plan)) return false;
  }
  return true;
}

// ---- output

void print_costs(const Options& o, const umr::Plan& plan, double calibrated_ms) {
  if (!o.json)
    std::printf(
        "\nthe chooser, calibrated in %.1f ms; nanoseconds of a use\n"
        "%-10s %10s %10s %12s %12s\n",
        calibrated_ms, "way", "message", "piece", "KiB to 16", "KiB beyond");
  for (uint32_t i = 0; i < umr::ways; i++) {
    const umr::WayCost& c = plan.costs()[i];
    const char* form =
        o.json ? "{\"test\": \"plan\", \"way\": \"%s\", \"fixed\": %.2f, \"piece\": "
                 "%.3f, \"more\": %.3f, \"near\": %.5f, \"middle\": %.5f, \"far\": %.5f}\n"
               : "%-10s %10.1f %12.2f %10.2f %12.2f %10.2f %10.2f\n";
    const double bytes = o.json ? 1 : 1024;
    std::printf(form, umr::name_of(static_cast<Way>(i)), static_cast<double>(c.fixed),
                static_cast<double>(c.piece), static_cast<double>(c.more),
                static_cast<double>(c.near) * bytes, static_cast<double>(c.middle) * bytes,
                static_cast<double>(c.far) * bytes);
  }
}

void print_choices(const umr::Plan& plan) {
  constexpr uint32_t piece_bytes[] = {64, 256, 1024, 4096, 16384};
  std::printf("\nchoice for one use; for 100 uses, pieces of\n%-8s", "pieces");
  for (const uint32_t b : piece_bytes) std::printf(" %7u B         ", b);
  std::printf("\n");
  for (uint32_t n = 1; n <= umr::bench_pieces; n *= n < 16 ? 2 : 4) {
    std::printf("%-8u", n);
    for (const uint32_t b : piece_bytes) {
      const umr::Scatter once{.pieces = n, .bytes = uint64_t{n} * b};
      umr::Scatter often = once;
      often.uses = 100;
      std::printf(" %-8s %-9s", umr::name_of(plan.choose(once)), umr::name_of(plan.choose(often)));
    }
    std::printf("\n");
  }
}

// ---- random layouts

struct Tried {
  umr::Scatter layout;
  uint32_t piece_bytes = 0;
  std::array<float, umr::ways> ns{};  // 0: the way is closed
  Way chosen = Way::none;

  [[nodiscard]] float best() const noexcept {
    float least = 0;
    for (const float t : ns)
      if (t > 0 && (least == 0 || t < least)) least = t;
    return least;
  }
  [[nodiscard]] float ratio() const noexcept { return ns[static_cast<uint32_t>(chosen)] / best(); }
};

uint32_t log_uniform(std::mt19937& random, double from, double to) {
  const double where = std::uniform_real_distribution<double>{std::log(from), std::log(to)}(random);
  return static_cast<uint32_t>(std::exp(where));
}

Tried random_layout(std::mt19937& random, umr::PlanBench& bench) {
  constexpr uint32_t uses[] = {1, 1, 1, 2, 5, 20};
  Tried t;
  do {
    t.layout.pieces = log_uniform(random, 1, umr::bench_pieces);
    t.piece_bytes = log_uniform(random, 16, 32768);
  } while (bench.pieces_of(t.layout.pieces, t.piece_bytes).empty());
  t.layout.bytes = uint64_t{t.layout.pieces} * t.piece_bytes;
  t.layout.uses = uses[random() % std::size(uses)];
  t.layout.remote = random() % 4 == 0;
  return t;
}

// False: a request failed.
bool try_all(umr::PlanBench& bench, const umr::Plan& plan, Tried& t) {
  const auto pieces = bench.pieces_of(t.layout.pieces, t.piece_bytes);
  const umr::WayMask open = plan.open_ways(t.layout);
  t.chosen = plan.choose(t.layout);
  for (uint32_t round = 0; round < rounds; round++) {
    for (uint32_t i = 0; i < umr::ways; i++) {
      if ((open & umr::mask_of(static_cast<Way>(i))) == 0) continue;
      const float ns = bench.run(static_cast<Way>(i), pieces, t.layout.uses);
      if (ns < 0 || !bench.arrived(pieces)) return false;
      if (t.ns[i] == 0 || ns < t.ns[i]) t.ns[i] = ns;
    }
  }
  return true;
}

void print_tried(const Options& o, const Tried& t) {
  const umr::Scatter& l = t.layout;
  std::printf(o.json ? "{\"test\": \"layout\", \"pieces\": %u, \"piece_bytes\": %u, \"uses\": %u, "
                       "\"remote\": %u, \"chosen\": \"%s\", \"of_best\": %.3f"
                     : "%6u %8u %5u %7u  %-8s %6.2f ",
              l.pieces, t.piece_bytes, l.uses, l.remote ? 1u : 0u, umr::name_of(t.chosen),
              static_cast<double>(t.ratio()));
  for (uint32_t i = 0; i < umr::ways; i++) {
    if (o.json)
      std::printf(", \"%s\": %.1f", umr::name_of(static_cast<Way>(i)),
                  static_cast<double>(t.ns[i]));
    else
      std::printf(" %10.0f", static_cast<double>(t.ns[i]));
  }
  std::printf(o.json ? "}\n" : "\n");
}

int show_layouts(const Options& o, umr::PlanBench& bench, const umr::Plan& plan) {
  if (!o.json)
    std::printf(
        "\n%u random layouts by every way, nanoseconds of all uses (0: closed)\n"
        "%6s %8s %5s %7s  %-8s %6s  %10s %10s %10s %10s %10s\n",
        layouts, "pieces", "bytes", "uses", "remote", "chosen", "/best", "copy", "list", "inline",
        "pointer", "cached");
  std::mt19937 random{o.seed};
  float worst = 0;
  uint32_t within = 0;
  for (uint32_t i = 0; i < layouts; i++) {
    Tried t = random_layout(random, bench);
    if (!try_all(bench, plan, t)) return refuse("the chooser", "a request failed");
    print_tried(o, t);
    worst = std::max(worst, t.ratio());
    within += t.ratio() <= 1.15F ? 1 : 0;
  }
  if (!o.json)
    std::printf("%u of %u within 15 %% of the best way, the worst at %.2f\n", within, layouts,
                static_cast<double>(worst));
  return 0;
}

}  // namespace

const char* why_no_plan(const std::string& text) {
  umr::Plan any{{}, {}};
  return apply(text, any) ? nullptr
                          : "ways are copy, list, inline, pointer, cached; one alone is gone "
                            "wherever it can be, WAY.TERM=NANOSECONDS sets a cost: TERM is fixed, "
                            "piece, more, near, middle or far; several with commas";
}

int show_plan(const Options& o, device::Device& device) {
  auto lane = Lane::create(device, {.send_wqebbs = umr::bench_wqebbs, .umr = device.caps().umr});
  if (!lane) return refuse("the queue", lane.error().what);
  auto self = device.endpoint((*lane)->qp());
  if (!self) return refuse("the queue", self.error().what);
  if (Status s = device.connect((*lane)->qp(), *self); !s)
    return refuse("the queue", s.error().what);
  auto block = mem::Block::map(umr::bench_bytes, device.numa_node());
  if (!block) return refuse("the memory", block.error().what);
  for (std::size_t i = 0; i < block->span().size(); i++)
    block->span()[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  auto region =
      mr::Mr::create(device.registrar(), block->span(), mr::Access::all, block->range().page_bytes);
  if (!region) return refuse("the memory", region.error().what);
  Keys keys{device.keys()};
  if (device.caps().umr) keys.make(std::min(umr::bench_pieces, device.caps().max_key_entries));
  umr::PlanBench bench{{.sq = (*lane)->sq(),
                        .cq = (*lane)->send_cq(),
                        .memory = region->region(),
                        .keys = {keys.all.data(), keys.count},
                        .limits = device.caps().umr_limits(),
                        .max_sge = device.caps().max_sge,
                        .progress = [](void* d) { static_cast<device::Device*>(d)->progress(); },
                        .arg = &device}};
  umr::PlanLimits limits = bench.limits();
  const auto start = std::chrono::steady_clock::now();
  const umr::PlanCosts costs = umr::calibrate(limits, umr::PlanBench::trial, &bench);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  umr::Plan plan{limits, costs};
  if (!o.plan.empty()) (void)apply(o.plan, plan);
  print_costs(o, plan, spent.count());
  if (!o.json) print_choices(plan);
  return show_layouts(o, bench, plan);
}

}  // namespace kilim::perf
