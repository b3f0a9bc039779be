// SPDX-License-Identifier: BSD-3-Clause
// 100,000 random steps of registering, re-registering, advising, binding and shutting windows,
// unmapping, remapping, moving, protecting, forking and accessing, against a plain model: no access
// succeeds that the model forbids, none fails that it allows. KILIM_SEED begins elsewhere,
// KILIM_STEPS goes on longer.
#include <cstdio>
#include <cstdlib>

#include "random_walk_fixture.hh"
#include "ut.hh"

namespace regions_random_ut {
namespace {

using namespace kilim;
using namespace kilim::test;

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t default_steps = 25'000;  // each takes about four times as long
#else
constexpr uint64_t default_steps = 100'000;
#endif

void print_tally(const Walk::Tally& t) {
  std::printf(
      "%llu allowed, %llu forbidden, %llu undefined, %llu advised, %llu refused, %llu forks\n",
      static_cast<unsigned long long>(t.allowed), static_cast<unsigned long long>(t.forbidden),
      static_cast<unsigned long long>(t.undefined), static_cast<unsigned long long>(t.advised),
      static_cast<unsigned long long>(t.refused), static_cast<unsigned long long>(t.forks));
  std::printf("windows: %llu bound, %llu not bindable, %llu shut, %llu through them, %llu not\n",
              static_cast<unsigned long long>(t.bound),
              static_cast<unsigned long long>(t.unbindable),
              static_cast<unsigned long long>(t.shut), static_cast<unsigned long long>(t.through),
              static_cast<unsigned long long>(t.shown_nothing));
}

void random_steps() {
  DeviceSpec c;
  c.name = "random0";
  VirtualDevice v{c};
  CU_ASSERT_FATAL(v.device != nullptr);
  const uint64_t seed = number_from("KILIM_SEED", 1),
                 steps = number_from("KILIM_STEPS", default_steps);
  Walk walk(*v.device, seed);
  CU_ASSERT_FATAL(walk.ok());
  bool good = true;
  uint64_t i = 0;
  for (; good && i < steps; i++) good = walk.step();
  if (!good)
    std::printf("seed %llu, step %llu\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(i));
  CU_ASSERT(good);
  const Walk::Tally& t = walk.tally();
  print_tally(t);
  CU_ASSERT(steps < 10'000 || (t.allowed > steps / 20 && t.forbidden > steps / 20));
  CU_ASSERT(steps < 10'000 || (t.bound > steps / 200 && t.through > steps / 200));
  CU_ASSERT(steps < 10'000 || (t.unbindable > steps / 200 && t.shown_nothing > steps / 200));
  std::printf("%llu atomics; windows shut by a peer: %llu, not by others: %llu\n",
              static_cast<unsigned long long>(t.atomics),
              static_cast<unsigned long long>(t.by_peer),
              static_cast<unsigned long long>(t.not_by_peer));
  CU_ASSERT(steps < 10'000 || (t.by_peer > 20 && t.not_by_peer > 20 && t.atomics > steps / 200));
  CU_ASSERT(steps < 10'000 || (t.undefined > 100 && t.advised > 100 && t.refused > 100));
}

const kilim::test::Case cases[] = {
    {"no access succeeds that a plain model forbids, none fails that it allows", random_steps},
};

}  // namespace
}  // namespace regions_random_ut

KILIM_TEST_SUITE(regions_random, regions_random_ut::cases)
