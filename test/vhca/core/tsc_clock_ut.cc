// SPDX-License-Identifier: BSD-3-Clause
// A clock that is carried on by a counter, over a clock and a counter that the test turns.
#include <cstdint>

#include "ut.hh"
#include "vhca/core/core_clock.hh"
#include "vhca/core/tsc_clock.hh"

namespace tsc_clock_ut {
namespace {

using kilim::test::Case;
using kilim::vhca::clock_ns;
using kilim::vhca::TscClock;

// A look at either takes some ticks.
struct Turned {
  static inline uint64_t now_ticks = 0, looked = 0, late_looks = 0;
  static inline double now_ns = 0, ns_of_tick = 0;
  static void reset(double of_tick) {
    now_ticks = 1'000'000;
    now_ns = 5e9;
    ns_of_tick = of_tick;
    looked = late_looks = 0;
  }
  static void pass(uint64_t n) {
    now_ticks += n;
    now_ns += static_cast<double>(n) * ns_of_tick;
  }
  static uint64_t present() { return static_cast<uint64_t>(now_ns); }
  static uint64_t ticks() noexcept {
    pass(10);
    return now_ticks;
  }
  static bool looks_late() { return late_looks != 0 && late_looks-- != 0; }
  static uint64_t ns() noexcept {
    looked++;
    pass(20);
    const uint64_t n = present();
    pass(looks_late() ? 100'000 : 20);
    return n;
  }
};
using Clock = TscClock<Turned>;

// Until the clock knows its rate.
void learn(Clock& clock) {
  for (int i = 0; i < 400; i++) {
    (void)clock.ns();
    Turned::pass(Clock::most_ticks);
  }
}

// Never back, and behind by no more than a look takes; the clock is read a little before its
// middle.
void it_is_the_clock(double of_tick) {
  Turned::reset(of_tick);
  Clock clock;
  uint64_t last = 0;
  learn(clock);
  Turned::looked = 0;
  for (uint32_t i = 0; i < 200'000; i++) {
    Turned::pass(i % 7 == 0 ? 3'000 : 50);
    const uint64_t n = clock.ns(), now = Turned::present();
    CU_ASSERT_TRUE_FATAL(n >= last);
    CU_ASSERT_TRUE_FATAL(n <= now);
    CU_ASSERT_TRUE_FATAL(now - n < 60 * static_cast<uint64_t>(of_tick + 1));
    last = n;
  }
  CU_ASSERT(Turned::looked < 1'000);
}
void it_is_the_clock_of_fast_counters() {
  it_is_the_clock(0.25);
}
void it_is_the_clock_of_slow_counters() {
  it_is_the_clock(1.7);
}

void the_clock_is_seldom_looked_at() {
  Turned::reset(0.4);
  Clock clock;
  learn(clock);
  (void)clock.ns();
  const uint64_t looked = Turned::looked;
  for (uint32_t i = 0; i < 2'000; i++) {
    Turned::pass(100);
    (void)clock.ns();
  }
  CU_ASSERT(Turned::looked - looked <= 1);
}

// As after a sleep of the machine: the counter went on, or began anew, the clock did not.
void a_clock_that_stood_is_followed() {
  for (const uint64_t jump : {uint64_t{1} << 20, uint64_t{1} << 34, ~uint64_t{0} - 500'000}) {
    Turned::reset(0.4);
    Clock clock;
    learn(clock);
    Turned::now_ticks += jump;
    for (uint32_t i = 0; i < 50'000; i++) {
      Turned::pass(2'000);
      const uint64_t n = clock.ns(), now = Turned::present();
      CU_ASSERT_TRUE_FATAL(n <= now);
      CU_ASSERT_TRUE_FATAL(now - n < 100);
    }
  }
}

// The rate of the clock changes, as where it is disciplined: it is followed.
void another_rate_is_followed() {
  Turned::reset(0.4);
  Clock clock;
  learn(clock);
  uint64_t last = clock.ns();
  for (const double part : {1 + 400e-6, 1 - 400e-6}) {
    Turned::ns_of_tick = 0.4 * part;
    for (uint32_t i = 0; i < 500'000; i++) {
      // In small steps where the system's clock is looked at.
      Turned::pass(i % 2'000 == 0 ? Clock::most_ticks - 80'000 : 20);
      const uint64_t n = clock.ns(), now = Turned::present();
      CU_ASSERT_TRUE_FATAL(n >= last);
      CU_ASSERT_TRUE_FATAL(n <= now + 200);
      CU_ASSERT_TRUE_FATAL(now <= n + 300);  // 105 µs of 800 millionths, of 2,000
      last = n;
    }
  }
}

// By more than a rate may change: it is measured anew, and the clock does not jump meanwhile.
void a_rate_that_is_none_carries_nothing() {
  Turned::reset(0.4);
  Clock clock;
  learn(clock);
  Turned::ns_of_tick = 0.4 * 0.997;
  uint64_t last = clock.ns();
  for (uint32_t i = 0; i < 300'000; i++) {
    Turned::pass(500);
    const uint64_t n = clock.ns(), now = Turned::present();
    CU_ASSERT_TRUE_FATAL(n >= last);
    CU_ASSERT_TRUE_FATAL(n <= now + 1'000);
    CU_ASSERT_TRUE_FATAL(now <= n + 1'000);
    last = n;
  }
}

// A look that was interrupted says nothing of the counter.
void an_interrupted_look_is_repeated() {
  Turned::reset(0.4);
  Clock clock;
  learn(clock);
  Turned::pass(2 * Clock::most_ticks);
  Turned::late_looks = 2;
  (void)clock.ns();
  const uint64_t n = clock.ns(), now = Turned::present();
  CU_ASSERT(n <= now);
  CU_ASSERT(now - n < 60);
}

void the_systems_is_monotonic() {
  uint64_t last = clock_ns();
  for (uint32_t i = 0; i < 2'000'000; i++) {
    const uint64_t n = clock_ns();
    CU_ASSERT_TRUE_FATAL(n >= last);
    last = n;
  }
}

constexpr Case cases[] = {
    {"it is the clock, of fast counters", it_is_the_clock_of_fast_counters},
    {"it is the clock, of slow counters", it_is_the_clock_of_slow_counters},
    {"the clock is seldom looked at", the_clock_is_seldom_looked_at},
    {"a clock that stood is followed", a_clock_that_stood_is_followed},
    {"another rate is followed", another_rate_is_followed},
    {"a rate that is none carries nothing", a_rate_that_is_none_carries_nothing},
    {"an interrupted look is repeated", an_interrupted_look_is_repeated},
    {"the system's is monotonic", the_systems_is_monotonic},
};

}  // namespace
}  // namespace tsc_clock_ut

KILIM_TEST_SUITE(tsc_clock, tsc_clock_ut::cases)
