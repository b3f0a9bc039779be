// SPDX-License-Identifier: BSD-3-Clause
#include "perf/cmd_chooser.hh"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cli/json.hh"
#include "kilim/chooser.hh"
#include "kilim/detail/chooser/chooser_bench.hh"
#include "kilim/region.hh"
#include "perf/two_sided/lane.hh"

namespace kilim::perf {
namespace {

using chooser::Way;

constexpr uint32_t layouts = 30;
constexpr uint32_t rounds = 5;  // in which a layout is tried by all ways in turns

int refuse(const char* what, const char* why) {
  std::fprintf(stderr, "kilim-perf: %s: %s\n", what, why);
  return 1;
}

// Keys that go back where they came from.
struct Keys {
  explicit Keys(mr::MkeySource& from) noexcept : source(from) {}
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys() { source.destroy_mkeys({all.data(), count}); }
  void make(uint32_t max_entries) {
    if (source.create_mkeys(max_entries, all)) count = all.size();
  }
  mr::MkeySource& source;
  std::array<mr::IndirectMkey, chooser::bench_keys> all;
  std::size_t count = 0;
};

// ---- what --plan says

// A cost of a way: its name in --plan and in JSON, what the table calls it and the unit there.
struct Term {
  const char* name;
  const char* heading;
  float chooser::WayCost::*cost;
  double units;  // as the table counts them: bytes are costs of a KiB there
  int digits;    // of the JSON
};
constexpr Term terms[] = {{"fixed", "message", &chooser::WayCost::fixed, 1, 2},
                          {"piece", "piece to 64", &chooser::WayCost::piece, 1, 3},
                          {"more", "piece beyond", &chooser::WayCost::more, 1, 3},
                          {"near", "KiB to 4", &chooser::WayCost::near, 1024, 5},
                          {"middle", "KiB to 64", &chooser::WayCost::middle, 1024, 5},
                          {"far", "KiB beyond", &chooser::WayCost::far, 1024, 5}};
static_assert(chooser::near_pieces == 64 && chooser::near_bytes == 4 * 1024 &&
                  chooser::middle_bytes == 64 * 1024,
              "the headings say so");

// One word, copy or copy.piece=12; false: it is not understood.
bool apply_word(const std::string& word, chooser::Chooser& plan) {
  const std::size_t dot = word.find('.');
  const Way way = chooser::way_named(word.substr(0, dot).c_str());
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
    chooser::WayCost cost = plan.costs()[static_cast<uint32_t>(way)];
    cost.*t.cost = ns;
    plan.set_cost(way, cost);
    return true;
  }
  return false;
}

bool apply(const std::string& text, chooser::Chooser& plan) {
  for (std::size_t at = 0, end = 0; end != text.size(); at = end + 1) {
    end = std::min(text.find(',', at), text.size());
    if (!apply_word(text.substr(at, end - at), plan)) return false;
  }
  return true;
}

// ---- output

void print_costs_json(const chooser::Chooser& plan) {
  for (uint32_t i = 0; i < chooser::ways; i++) {
    cli::JsonObject all;
    all.text("test", "plan").text("way", chooser::name_of(static_cast<Way>(i)));
    for (const Term& t : terms)
      all.real(t.name, static_cast<double>(plan.costs()[i].*t.cost), t.digits);
    all.print();
  }
}

void print_costs(const chooser::Chooser& plan, double calibrated_ms) {
  std::printf("\nthe chooser, calibrated in %.1f ms; nanoseconds of a use\n%-8s", calibrated_ms,
              "way");
  for (const Term& t : terms) std::printf("  %12s", t.heading);
  std::printf("\n");
  for (uint32_t i = 0; i < chooser::ways; i++) {
    std::printf("%-8s", chooser::name_of(static_cast<Way>(i)));
    for (const Term& t : terms)
      std::printf("  %12.2f", static_cast<double>(plan.costs()[i].*t.cost) * t.units);
    std::printf("\n");
  }
}

void print_choices(const chooser::Chooser& plan) {
  constexpr uint32_t piece_bytes[] = {64, 256, 1024, 4096, 16384};
  std::printf("\nchoice for one use; for 100 uses, pieces of\n%-8s", "pieces");
  for (const uint32_t b : piece_bytes) std::printf(" %7u B         ", b);
  std::printf("\n");
  for (uint32_t n = 1; n <= chooser::bench_pieces; n *= n < 16 ? 2 : 4) {
    std::printf("%-8u", n);
    for (const uint32_t b : piece_bytes) {
      const chooser::Scatter once{.pieces = n, .bytes = uint64_t{n} * b};
      chooser::Scatter often = once;
      often.uses = 100;
      std::printf(" %-8s %-9s", chooser::name_of(plan.choose(once)),
                  chooser::name_of(plan.choose(often)));
    }
    std::printf("\n");
  }
}

// ---- random layouts

struct Tried {
  chooser::Scatter layout;
  uint32_t piece_bytes = 0;
  std::array<float, chooser::ways> ns{};  // 0: the way is closed
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

Tried random_layout(std::mt19937& random, chooser::ChooserBench& bench) {
  constexpr uint32_t uses[] = {1, 1, 1, 2, 5, 20};
  Tried t;
  do {
    t.layout.pieces = log_uniform(random, 1, chooser::bench_pieces);
    t.piece_bytes = log_uniform(random, 16, 32768);
  } while (bench.pieces_of(t.layout.pieces, t.piece_bytes).empty());
  t.layout.bytes = uint64_t{t.layout.pieces} * t.piece_bytes;
  t.layout.uses = uses[random() % std::size(uses)];
  t.layout.remote = random() % 4 == 0;
  return t;
}

// False: a request failed.
bool try_all(chooser::ChooserBench& bench, const chooser::Chooser& plan, Tried& t) {
  const auto pieces = bench.pieces_of(t.layout.pieces, t.piece_bytes);
  const chooser::WayMask open = plan.open_ways(t.layout);
  t.chosen = plan.choose(t.layout);
  for (uint32_t round = 0; round < rounds; round++) {
    for (uint32_t i = 0; i < chooser::ways; i++) {
      if ((open & chooser::mask_of(static_cast<Way>(i))) == 0) continue;
      const float ns = bench.run(static_cast<Way>(i), pieces, t.layout.uses);
      if (ns < 0 || !bench.arrived(pieces)) return false;
      if (t.ns[i] == 0 || ns < t.ns[i]) t.ns[i] = ns;
    }
  }
  return true;
}

void print_tried_json(const Tried& t) {
  cli::JsonObject all;
  all.text("test", "layout").number("pieces", t.layout.pieces).number("piece_bytes", t.piece_bytes);
  all.number("uses", t.layout.uses).number("remote", t.layout.remote ? 1 : 0);
  all.text("chosen", chooser::name_of(t.chosen)).real("of_best", static_cast<double>(t.ratio()), 3);
  for (uint32_t i = 0; i < chooser::ways; i++)
    all.real(chooser::name_of(static_cast<Way>(i)), static_cast<double>(t.ns[i]), 1);
  all.print();
}

void print_tried(const Tried& t) {
  const chooser::Scatter& l = t.layout;
  std::printf("%6u %8u %5u %7u  %-8s %6.2f ", l.pieces, t.piece_bytes, l.uses, l.remote ? 1u : 0u,
              chooser::name_of(t.chosen), static_cast<double>(t.ratio()));
  for (const float ns : t.ns) std::printf(" %10.0f", static_cast<double>(ns));
  std::printf("\n");
}

int show_layouts(const Options& o, chooser::ChooserBench& bench, const chooser::Chooser& plan) {
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
    (o.json ? print_tried_json : print_tried)(t);
    worst = std::max(worst, t.ratio());
    within += t.ratio() <= 1.15F ? 1 : 0;
  }
  if (!o.json)
    std::printf("%u of %u within 15 %% of the best way, the worst at %.2f\n", within, layouts,
                static_cast<double>(worst));
  return 0;
}

// What the bench works on: a queue connected to itself, memory that is no two pages alike, keys.
struct Stage {
  explicit Stage(mr::MkeySource& source) noexcept : keys(source) {}

  // Empty: all is there.
  std::string open(device::Device& device) {
    auto made =
        Lane::create(device, {.send_wqebbs = chooser::bench_wqebbs, .umr = device.caps().umr});
    if (!made) return made.error().what;
    lane = *std::move(made);
    auto self = device.endpoint(lane->qp());
    if (!self) return self.error().what;
    if (Status s = device.connect(lane->qp(), *self); !s) return s.error().what;
    auto mapped = mem::Block::map(chooser::bench_bytes, device.numa_node());
    if (!mapped) return mapped.error().what;
    block.emplace(*std::move(mapped));
    for (std::size_t i = 0; i < block->span().size(); i++)
      block->span()[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    auto registered = mr::Mr::create(device.registrar(), block->span(), mr::Access::all,
                                     block->range().page_bytes);
    if (!registered) return registered.error().what;
    region.emplace(*std::move(registered));
    if (device.caps().umr)
      keys.make(std::min(chooser::bench_pieces, device.caps().max_key_entries));
    return "";
  }

  chooser::BenchContext bench_of(device::Device& device) noexcept {
    return {.sq = lane->sq(),
            .cq = lane->send_cq(),
            .memory = region->region(),
            .keys = {keys.all.data(), keys.count},
            .limits = device.caps().umr_limits(),
            .max_sge = device.caps().max_sge,
            .progress = [](void* d) { static_cast<device::Device*>(d)->progress(); },
            .arg = &device};
  }

  std::unique_ptr<Lane> lane;
  std::optional<mem::Block> block;
  std::optional<mr::Mr> region;
  Keys keys;
};

}  // namespace

const char* why_no_plan(const std::string& text) {
  chooser::Chooser any{{}, {}};
  return apply(text, any) ? nullptr
                          : "ways are copy, list, inline, pointer, cached; one alone is gone "
                            "wherever it can be, WAY.TERM=NANOSECONDS sets a cost: TERM is fixed, "
                            "piece, more, near, middle or far; several with commas";
}

int show_plan(const Options& o, device::Device& device) {
  Stage stage{device.keys()};
  if (const std::string why = stage.open(device); !why.empty())
    return refuse("the chooser", why.c_str());
  chooser::ChooserBench bench{stage.bench_of(device)};
  chooser::ChooserLimits limits = bench.limits();
  const auto start = std::chrono::steady_clock::now();
  const chooser::ChooserCosts costs =
      chooser::calibrate(limits, chooser::ChooserBench::trial, &bench);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  chooser::Chooser plan{limits, costs};
  if (!o.plan.empty()) (void)apply(o.plan, plan);
  if (o.json) {
    print_costs_json(plan);
  } else {
    print_costs(plan, spent.count());
    print_choices(plan);
  }
  return show_layouts(o, bench, plan);
}

}  // namespace kilim::perf
