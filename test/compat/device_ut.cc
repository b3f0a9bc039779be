// SPDX-License-Identifier: BSD-3-Clause
// Memory of another device, which the experimental verbs and relaxed regions refuse. Skipped
// without root.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

#include "../vhca/verbs/fabric_fixture.hh"
#include "compat_cases.hh"
#include "kilim/ibv_compat.h"

namespace device_ut {
namespace {

using namespace kilim::test;

constexpr int skipped = 77;  // to Meson

// As memory of another device looks: its file lies in /dev, and it cannot be pinned.
struct DevicePage {
  char name[32] = "/dev/kilim-compat-XXXXXX";
  int fd = ::mkstemp(name);
  void* at = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  DevicePage() = default;
  DevicePage(const DevicePage&) = delete;
  DevicePage& operator=(const DevicePage&) = delete;
  ~DevicePage() {
    if (at != MAP_FAILED) ::munmap(at, page);
    if (fd >= 0) ::close(fd);
    ::unlink(name);
  }
};

void memory_of_a_device() {
  DevicePage foreign;
  CU_ASSERT_TRUE_FATAL(foreign.fd >= 0);
  CU_ASSERT_TRUE_FATAL(foreign.at != MAP_FAILED);
  ibv_pd* own = ibv_alloc_pd(client());
  Region region(own, page);
  ibv_exp_reg_mr_in in{};
  in.pd = own;
  in.addr = foreign.at;
  in.length = page;
  CU_ASSERT_TRUE(ibv_exp_reg_mr(&in) == nullptr && errno == EOPNOTSUPP);
  CU_ASSERT_TRUE(says("another device"));
  EQUAL(ibv_exp_rereg_mr(region.mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, foreign.at, page, 0,
                         nullptr),
        EOPNOTSUPP);
  CU_ASSERT_TRUE(says("another device"));
  region.release();
  EQUAL(ibv_dealloc_pd(own), 0);
  Attached* device = attach_device("compat5", "no-odp");
  ibv_context* c = open_hooked("compat5");
  CU_ASSERT_TRUE_FATAL(device != nullptr);
  CU_ASSERT_TRUE_FATAL(c != nullptr);
  ibv_pd* pd = ibv_alloc_pd(c);
  CU_ASSERT_TRUE(ibv_reg_mr_relaxed(pd, foreign.at, page, 0) == nullptr && errno == EOPNOTSUPP);
  CU_ASSERT_TRUE(says("another device"));
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
  EQUAL(ibv_close_device(c), 0);
}

constexpr Case cases[] = {
    {"a device's memory that cannot be pinned is refused as such", memory_of_a_device},
};

}  // namespace
}  // namespace device_ut

KILIM_TEST_MAIN(device) {
  if (::geteuid() != 0) {
    (void)std::puts("needs root: nobody else may put a file into /dev");
    return device_ut::skipped;
  }
  return kilim::test::run_cases("compat: memory of devices", device_ut::cases, argc, argv);
}
