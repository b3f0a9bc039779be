// SPDX-License-Identifier: BSD-3-Clause
// A soak that keeps a shadow of both ends' memory and compares every byte (shadow_fixture.hh), over
// a wire that loses, doubles, swaps and damages frames, in the strict order and in a weak one.
// KILIM_SOAK_SECONDS says how long both take; a few seconds without it. KILIM_SOAK_SEED chooses
// what is done (1), KILIM_SOAK_BATCHES ends each of them behind so many batches, whatever the clock
// says.
#include <chrono>
#include <cstdlib>

#include "shadow_fixture.hh"

namespace {

using namespace kilim::test;

uint64_t asked(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  const uint64_t value = text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  return value != 0 ? value : otherwise;
}

void say(const ShadowCounts& c) {
  std::printf(
      "%lu batches, %lu requests, %lu MB, %lu lists, %lu interleaved, %lu atomics, %lu messages\n",
      c.batches, c.requests, c.bytes / 1'000'000, c.umrs, c.interleaved, c.atomics, c.messages);
  std::printf("%lu windows, %lu times pages went, %lu times registered again\n", c.windows, c.paged,
              c.reregistered);
  std::printf("%lu overstepped, %lu refusals of that were lost, %lu recoveries\n", c.overstepped,
              c.unanswered, c.recoveries);
  constexpr const char* kinds[] = {"UC", "UD", "raw"};
  for (std::size_t i = 0; i < 3; i++)
    std::printf("%s: %lu sent, %lu arrived whole, %lu damaged\n", kinds[i], c.sent[i], c.right[i],
                c.wrong[i]);
}

// Half of the time, or so many batches.
void soak(ShadowConfig config) {
  config.seed = asked("KILIM_SOAK_SEED", 1);
  const uint64_t seconds = asked("KILIM_SOAK_SECONDS", 0);
  const uint64_t last = asked("KILIM_SOAK_BATCHES", 200);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds{seconds * 500};
  const auto goes_on = [&](uint64_t batches) {
    return seconds != 0 ? std::chrono::steady_clock::now() < end : batches < last;
  };
  std::printf("KILIM_SOAK_SEED=%lu, %sN, order %s\n", config.seed, config.wire.c_str(),
              config.order.c_str());
  // It lives as long as the process, as its adapters do.
  static std::array<Shadow*, 2> kept;
  Shadow& s =
      *(kept[config.order == "strict" ? 0 : 1] = std::make_unique<Shadow>(config).release());
  CU_ASSERT_FATAL(s.ok());
  while (goes_on(s.counts.batches) && s.batch()) {
  }
  say(s.counts);
  const ShadowCounts& c = s.counts;
  CU_ASSERT(c.requests > 0);
  CU_ASSERT(c.bytes > 0);
  CU_ASSERT(c.umrs > 0);
  CU_ASSERT(c.interleaved > 0);
  CU_ASSERT(c.atomics > 0);
  CU_ASSERT(c.messages > 0);
  CU_ASSERT(c.paged > 0);
  CU_ASSERT(c.right[0] > 0);
  CU_ASSERT(c.right[1] > 0);
  CU_ASSERT(c.right[2] > 0);
}

void strict_order() {
  soak({.name = "strict",
        .wire = "cable:shadow0+fault:drop:0.01:dup:0.01:reorder:0.02:corrupt:0.003:seed:",
        .order = "strict"});
}
void weak_order() {
  soak({.name = "weak",
        .wire = "cable:shadow1+fault:drop:0.01:dup:0.01:reorder:0.02:seed:",
        .order = "weak:5"});
}

const kilim::test::Case cases[] = {
    {"every byte is the shadow's in the strict order", strict_order},
    {"every byte is the shadow's in a weak order", weak_order},
};

}  // namespace

KILIM_TEST_SUITE(shadow, cases)
