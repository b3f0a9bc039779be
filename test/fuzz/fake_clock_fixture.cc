// SPDX-License-Identifier: BSD-3-Clause
// The linker leads calls of clock_gettime here (--wrap).
#include "fake_clock_fixture.hh"

#include <time.h>

namespace {
constexpr uint64_t begin_ns = 1'000'000'000'000;
uint64_t now_ns = begin_ns;
}  // namespace

namespace kilim::fuzz {

void reset_clock() noexcept {
  now_ns = begin_ns;
}
void pass_time(uint64_t ns) noexcept {
  now_ns += ns;
}

}  // namespace kilim::fuzz

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): names that the linker demands
int __real_clock_gettime(clockid_t clock, timespec* out);
int __wrap_clock_gettime(clockid_t clock, timespec* out);

int __wrap_clock_gettime(clockid_t clock, timespec* out) {
  if (clock != CLOCK_MONOTONIC) return __real_clock_gettime(clock, out);
  out->tv_sec = static_cast<time_t>(now_ns / 1'000'000'000);
  out->tv_nsec = static_cast<long>(now_ns % 1'000'000'000);
  return 0;
}
// NOLINTEND(bugprone-reserved-identifier)
}
