// SPDX-License-Identifier: BSD-3-Clause
// The chooser against a machine that is a formula with steps, caches and noise: what it finds out
// by its trials, what it chooses, what it may not choose.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "kilim/detail/chooser/chooser.hh"
#include "kilim/detail/chooser/packet_plan.hh"
#include "ut.hh"

namespace kilim::inline v1::chooser {
namespace chooser_ut {
namespace {

constexpr ChooserLimits open_limits{
    .list_pieces = 30, .inline_pieces = 52, .pointer_pieces = 512, .copy_bytes = 1u << 18};

// Nanoseconds of one use. Bytes cost more beyond each cache; requests grow by blocks of four
// pieces; a long list is dearer a piece.
struct Machine {
  float copy_byte = 0.03F, device_byte = 0.006F;
  float key = 60, pointer = 30, segment = 17;
  float noise = 0;  // of a trial, upwards
  Way broken = Way::none;
  uint32_t trials = 0;
  std::mt19937 random{7};

  static float cached(float byte, float bytes) {
    return byte *
           (bytes + 1.2F * std::max(bytes - 5000.F, 0.F) + 1.8F * std::max(bytes - 80000.F, 0.F));
  }
  float use(Way w, const Trial& t) const {
    const auto n = static_cast<float>(t.pieces);
    const float bytes = n * static_cast<float>(t.piece_bytes);
    const float blocks = std::ceil(n / 4) * 4;
    const float device = cached(device_byte, bytes);
    const float list = segment * std::min(blocks, 80.F) + 2 * segment * std::max(n - 80, 0.F);
    switch (w) {
      case Way::copy:
        return 50 + n + cached(copy_byte, bytes) + device;
      case Way::gather_list:
        return (t.pieces == 1 ? 50 : 90 + list) + device;
      case Way::inline_key:
        return 90 + key + 1.2F * list + device;
      case Way::pointer_key:
        return 90 + key + pointer + 1.2F * list + device;
      default:
        return 100 + list + device;
    }
  }
  float all(Way w, const Trial& t) const {
    if (w != Way::cached_key) return use(w, t) * static_cast<float>(t.uses);
    const Way by = t.pieces <= open_limits.inline_pieces ? Way::inline_key : Way::pointer_key;
    return use(by, t) + use(w, t) * static_cast<float>(t.uses - 1);
  }
  static float run(void* machine, Way w, const Trial& t) {
    auto& m = *static_cast<Machine*>(machine);
    m.trials++;
    if (w == m.broken) return -1;
    return m.all(w, t) * (1 + m.noise * static_cast<float>(m.random() % 1000) / 1000);
  }
};

Chooser plan_of(Machine& m, ChooserLimits limits = open_limits) {
  const ChooserCosts costs = calibrate(limits, Machine::run, &m);
  return Chooser{limits, costs};
}

uint32_t log_uniform(std::mt19937& random, double from, double to) {
  return static_cast<uint32_t>(
      std::exp(std::uniform_real_distribution<double>{std::log(from), std::log(to)}(random)));
}

struct Random {
  Scatter layout;
  Trial trial;
};
Random random_layout(std::mt19937& random) {
  Random r;
  do {
    r.trial = {log_uniform(random, 1, 512), log_uniform(random, 16, 32768),
               1 + static_cast<uint32_t>(random() % 6)};
    r.layout = {.pieces = r.trial.pieces,
                .bytes = uint64_t{r.trial.pieces} * r.trial.piece_bytes,
                .uses = r.trial.uses,
                .remote = random() % 4 == 0};
  } while (r.layout.bytes > open_limits.copy_bytes);
  return r;
}

float best_of(const Machine& m, const Chooser& plan, const Random& r) {
  float best = 0;
  for (uint32_t i = 0; i < ways; i++) {
    const Way w = static_cast<Way>(i);
    if ((plan.open_ways(r.layout) & mask_of(w)) == 0) continue;
    const float ns = m.all(w, r.trial);
    if (best == 0 || ns < best) best = ns;
  }
  return best;
}

void choice_is_good_on(Machine m, std::mt19937& random) {
  const Chooser plan = plan_of(m);
  for (int i = 0; i < 30; i++) {
    const Random r = random_layout(random);
    const Way chosen = plan.choose(r.layout);
    CU_ASSERT_TRUE(m.all(chosen, r.trial) <= 1.15F * best_of(m, plan, r));
  }
}

void choice_is_good() {
  std::mt19937 random{3};
  for (const float noise : {0.F, 0.03F})
    for (const float copy_byte : {0.015F, 0.03F, 0.1F})
      choice_is_good_on({.copy_byte = copy_byte, .noise = noise}, random);
}

void choice_is_the_least_cost() {
  Machine m;
  const Chooser plan = plan_of(m);
  std::mt19937 random{5};
  for (int i = 0; i < 1000; i++) {
    const Scatter l = random_layout(random).layout;
    const WayMask open = plan.open_ways(l);
    const Way chosen = plan.choose(l);
    CU_ASSERT_TRUE((open & mask_of(chosen)) != 0);
    if (l.pieces == 1 && !l.remote) EQUAL(chosen, Way::gather_list);
    if (l.pieces == 1) continue;
    for (uint32_t w = 0; w < ways; w++)
      if ((open & mask_of(static_cast<Way>(w))) != 0)
        CU_ASSERT_TRUE(plan.cost(chosen, l) <= plan.cost(static_cast<Way>(w), l) * 1.0001F);
  }
}

void every_way_has_its_place() {
  Machine m;
  Chooser plan = plan_of(m);
  EQUAL(plan.choose({.pieces = 8, .bytes = 512}), Way::copy);
  EQUAL(plan.choose({.pieces = 8, .bytes = 100'000}), Way::gather_list);
  EQUAL(plan.choose({.pieces = 8, .bytes = 100'000, .remote = true}), Way::inline_key);
  EQUAL(plan.choose({.pieces = 60, .bytes = 250'000}), Way::pointer_key);
  EQUAL(plan.choose({.pieces = 60, .bytes = 250'000, .uses = 50}), Way::cached_key);
  // Too much to pack, too many for anything: there is no way.
  EQUAL(plan.choose({.pieces = 600, .bytes = 1u << 20}), Way::none);
  EQUAL(plan.choose({}), Way::none);
  constexpr Scatter far{.pieces = 8, .bytes = 100'000, .remote = true};
  Scatter l = far;
  l.ways = mask_of(Way::copy) | mask_of(Way::gather_list);
  EQUAL(plan.choose(l), Way::copy);
  l.ways = mask_of(Way::gather_list);
  EQUAL(plan.choose(l), Way::none);
}

void caller_knows_better() {
  Machine m;
  Chooser plan = plan_of(m);
  constexpr Scatter small{.pieces = 8, .bytes = 512};
  plan.force(Way::pointer_key);
  EQUAL(plan.choose(small), Way::pointer_key);
  EQUAL(plan.choose({.pieces = 600, .bytes = 512}), Way::copy);  // where that can be
  plan.force(Way::none);
  EQUAL(plan.choose(small), Way::copy);
  plan.set_cost(Way::copy, {.fixed = 1e9F});
  EQUAL(plan.choose(small), Way::gather_list);
}

void ways_that_do_not_work_are_closed() {
  for (uint32_t w = 0; w < ways - 1; w++) {
    Machine m{.broken = static_cast<Way>(w)};
    const Chooser plan = plan_of(m);
    std::mt19937 random{9};
    for (int i = 0; i < 100; i++)
      CU_ASSERT_TRUE(plan.choose(random_layout(random).layout) != static_cast<Way>(w));
  }
  Machine m;
  const Chooser keyless = plan_of(m, {.list_pieces = 30, .copy_bytes = 1u << 18});
  EQUAL(keyless.choose({.pieces = 60, .bytes = 250'000, .uses = 50}), Way::copy);
}

void trials_are_few() {
  Machine m;
  (void)plan_of(m);
  CU_ASSERT_TRUE(m.trials <= 72);
}

void names_go_both_ways() {
  for (uint32_t w = 0; w < ways; w++)
    EQUAL(way_named(name_of(static_cast<Way>(w))), static_cast<Way>(w));
  EQUAL(way_named("none"), Way::none);
  EQUAL(way_named(""), Way::none);
}

// For each length the plan's way is what the chooser says, in as few steps as there are; costs are
// those of the ways that are open.
void plans_say_what_the_chooser_says() {
  Machine m;
  const Chooser chooser = plan_of(m);
  const PacketShape shapes[] = {
      {.buffer_bytes = 2112, .longest = 9000, .copy_room = 2048},
      {.buffer_bytes = 2112, .longest = 9000, .copy_room = 0},
      {.buffer_bytes = 100, .longest = 3000, .copy_room = 500},
      {.buffer_bytes = 2112, .longest = 9000, .copy_room = 2048, .ways = mask_of(Way::inline_key)},
  };
  for (const PacketShape& shape : shapes) {
    const PacketPlan plan{chooser, shape};
    uint32_t changes = 0;
    Way before = Way::none;
    for (uint32_t n = 1; n <= shape.longest; n++) {
      Scatter s{.pieces = 1 + (n + shape.buffer_bytes - 1) / shape.buffer_bytes, .bytes = n};
      s.ways =
          shape.ways & (mask_of(Way::copy) | mask_of(Way::gather_list) | mask_of(Way::inline_key));
      if (n > shape.copy_room) s.ways &= static_cast<WayMask>(~mask_of(Way::copy));
      EQUAL_FATAL(plan.way(n), chooser.choose(s));
      changes += plan.way(n) != before;
      before = plan.way(n);
      CU_ASSERT_TRUE(plan.uses(before));
      CU_ASSERT_TRUE(n <= shape.copy_room || before != Way::copy);
    }
    EQUAL(plan.steps().size(), changes);
    EQUAL(plan.steps().back().up_to, shape.longest);
    EQUAL(plan.way(shape.longest + 1), before);
    for (const PlanStep& s : plan.steps()) {
      CU_ASSERT_TRUE(s.ns[static_cast<uint32_t>(s.way)] > 0);
      EQUAL(s.ns[3], 0.0f);
      EQUAL(s.ns[4], 0.0f);
      if (s.up_to > shape.copy_room) CU_ASSERT_TRUE(s.ns[0] == 0);
    }
  }
}

// More pieces than any way takes; and a plan that nobody made.
void plans_say_that_no_way_is_open() {
  Chooser chooser{{.list_pieces = 3}, {}};
  const PacketPlan plan{chooser, {.buffer_bytes = 1000, .longest = 3000, .copy_room = 0}};
  EQUAL(plan.way(2000), Way::gather_list);
  EQUAL(plan.way(2001), Way::none);
  CU_ASSERT_TRUE(plan.uses(Way::none));
  EQUAL(text_of(plan), std::string("list to 2000 B (), none to 3000 B ()"));
  EQUAL(PacketPlan{}.way(5000), Way::gather_list);
  CU_ASSERT_TRUE(!PacketPlan{}.uses(Way::copy));
}

// Costs that alternate by the byte: behind the last step all go one way.
void plans_end() {
  Chooser chooser{{.list_pieces = 100, .inline_pieces = 100}, {}};
  chooser.set_cost(Way::gather_list, {.fixed = 1, .piece = 10});
  chooser.set_cost(Way::inline_key, {.fixed = 21, .near = 10});
  const PacketPlan plan{chooser, {.buffer_bytes = 1, .longest = 40, .copy_room = 0}};
  CU_ASSERT_TRUE(!plan.steps().empty());
  CU_ASSERT_TRUE(plan.steps().size() <= PacketPlan::max_steps);
  EQUAL(plan.steps().back().up_to, 40u);
}

const kilim::test::Case cases[] = {
    {"on 30 random layouts the choice is within 15 % of the best", choice_is_good},
    {"the choice is an open way of least cost", choice_is_the_least_cost},
    {"every way has layouts that it is best for", every_way_has_its_place},
    {"a way can be forced, a cost can be set", caller_knows_better},
    {"ways that do not work are never chosen", ways_that_do_not_work_are_closed},
    {"a calibration takes at most 72 trials", trials_are_few},
    {"the names of the ways are read and written", names_go_both_ways},
    {"a packet plan says what the chooser says of each length", plans_say_what_the_chooser_says},
    {"a packet plan says that no way is open", plans_say_that_no_way_is_open},
    {"a packet plan has an end", plans_end},
};

}  // namespace
}  // namespace chooser_ut
}  // namespace kilim::inline v1::chooser

KILIM_TEST_SUITE(chooser, kilim::chooser::chooser_ut::cases)
