// SPDX-License-Identifier: BSD-3-Clause
// A program that attaches by itself, run by kilim-vhca: it gets the launcher's device.
#include <cstring>

#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"

using namespace kilim;
using namespace kilim::vhca;

namespace attached_ut {
namespace {

void the_launchers_device_is_used() {
  DeviceSpec config;
  config.name = "vhca0";
  auto attached = entry::attach(config);
  CU_ASSERT_FATAL(attached.ok());
  EQUAL((*attached)->name(), "vhca0");
  EQUAL((*attached)->hca(), nullptr);
  EQUAL(entry::find_attached("vhca0"), *attached);
  EQUAL(entry::find_attached("vhca1"), nullptr);
  ibv_context* context = test::open_by_name("vhca0");
  CU_ASSERT_FATAL(context != nullptr);
  {
    test::RcPair pair(context);
    CU_ASSERT_FATAL(pair.ok());
    CU_ASSERT((*attached)->set_lint("error").ok());
    EQUAL((*attached)->set_lint("loud").error().code, EINVAL);
    CU_ASSERT((*attached)->set_mtu(1, 1500).ok());
    EQUAL((*attached)->set_mtu(9, 1500).error().code, EINVAL);
    std::memset(pair.from(), 0x5a, 100);
    EQUAL(pair.post_write(100), 0);
    ibv_wc wc{};
    int got = 0;
    for (int i = 0; i < 1000000 && got == 0; i++) {
      (*attached)->poll();
      got = ibv_poll_cq(pair.cq(), 1, &wc);
    }
    EQUAL(got, 1);
    EQUAL(wc.status, IBV_WC_SUCCESS);
    EQUAL(std::memcmp(pair.from(), pair.to(), 100), 0);
  }
  (*attached)->detach();
  CU_ASSERT(test::is_listed("vhca0"));
  ibv_close_device(context);
}

int error_of(const char* name, const char* wire) {
  DeviceSpec config;
  config.name = name;
  if (wire != nullptr) config.wires.emplace_back(wire);
  auto attached = entry::attach(config);
  return attached.ok() ? 0 : attached.error().code;
}

void what_the_launcher_has_not_is_refused() {
  EQUAL(error_of("vhca7", nullptr), ENOENT);
  // The wire is the launcher's to say: another one would be left out in silence.
  EQUAL(error_of("vhca0", "cable:a"), EINVAL);
  EQUAL(error_of("vhca0", nullptr), 0);
}

constexpr test::Case cases[] = {
    {"attach finds the launcher's device, and it works", the_launchers_device_is_used},
    {"a device or a wire that the launcher has not is refused",
     what_the_launcher_has_not_is_refused},
};

}  // namespace
}  // namespace attached_ut

KILIM_TEST_SUITE(attached, attached_ut::cases)
