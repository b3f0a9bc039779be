// SPDX-License-Identifier: BSD-3-Clause
// A counter of the device that begins anywhere, wraps at 32 bits, and cannot always be read.
#include "kilim/detail/port/device_counter.hh"
#include "ut.hh"

namespace device_counter_ut {
namespace {

using kilim::port::DeviceCounter;

void begins_anywhere() {
  DeviceCounter c;
  EQUAL(c.read(500), 0u);
  EQUAL(c.read(510), 10u);
  EQUAL(c.read(std::nullopt), 10u);
  EQUAL(c.read(512), 12u);
}

void silent_at_first() {
  DeviceCounter c;
  EQUAL(c.read(std::nullopt), 0u);
  EQUAL(c.read(70), 0u);
  EQUAL(c.read(71), 1u);
}

void wraps() {
  DeviceCounter c;
  EQUAL(c.read(0xfffffff0), 0u);
  EQUAL(c.read(4), 20u);
  EQUAL(c.read(5), 21u);
}

constexpr kilim::test::Case cases[] = {
    {"what was counted before is others', what cannot be read stays", begins_anywhere},
    {"a device that says nothing at first", silent_at_first},
    {"32 bits wrap", wraps},
};

}  // namespace
}  // namespace device_counter_ut

KILIM_TEST_SUITE(device_counter, device_counter_ut::cases)
