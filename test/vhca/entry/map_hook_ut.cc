// SPDX-License-Identifier: BSD-3-Clause
// A program that puts its own mmap() into libmlx5's offset table, as UCX does with every library
// that it finds ("reloc"), and again after each dlopen(): pages of a device are mapped by us.

#include <cerrno>

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"
#include "vhca/entry/got.hh"

using namespace kilim::vhca;
using kilim::test::RcPair;

namespace map_hook_ut {
namespace {

int foreign_calls = 0;

void* foreign_mmap(void*, size_t, int, int, int, off_t) {
  foreign_calls++;
  errno = EPERM;
  return MAP_FAILED;
}

// How many entries of libmlx5 lead elsewhere now.
int hijack() {
  void* foreign = reinterpret_cast<void*>(&foreign_mmap);
  const entry::Redirect redirects[] = {{"mmap", foreign}, {"mmap64", foreign}};
  return entry::redirect_calls("libmlx5", redirects);
}

ibv_context* open_attached(entry::Attached* device) {
  return kilim::test::open_by_name(device->name().c_str());
}

entry::Attached* attach_named(const char* name) {
  kilim::DeviceSpec config;
  config.name = name;
  auto attached = entry::attach(config);
  return attached.ok() ? *attached : nullptr;
}

void writes_arrive(entry::Attached* device, ibv_context* context) {
  RcPair pair(context);
  CU_ASSERT_FATAL(pair.ok());
  pair.from()[0] = 7;
  EQUAL(pair.post_write(1), 0);
  device->poll();
  ibv_wc wc{};
  CU_ASSERT(ibv_poll_cq(pair.cq(), 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
  EQUAL(pair.to()[0], 7);
}

void before_a_context() {
  entry::Attached* device = attach_named("early0");
  CU_ASSERT_FATAL(device != nullptr);
  CU_ASSERT_FATAL(hijack() > 0);
  ibv_context* context = open_attached(device);
  CU_ASSERT_FATAL(context != nullptr);
  writes_arrive(device, context);
  EQUAL(foreign_calls, 0);
  ibv_close_device(context);
}

void after_a_context() {
  entry::Attached* device = attach_named("late0");
  CU_ASSERT_FATAL(device != nullptr);
  ibv_context* context = open_attached(device);
  CU_ASSERT_FATAL(context != nullptr);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_FATAL(hijack() > 0);
    writes_arrive(device, context);
  }
  EQUAL(foreign_calls, 0);
  ibv_close_device(context);
}

const kilim::test::Case cases[] = {
    {"libmlx5's mmap is ours in a context that is opened behind somebody's hooks",
     before_a_context},
    {"libmlx5's mmap is ours again after somebody hooked it in an open context", after_a_context},
};

}  // namespace
}  // namespace map_hook_ut

KILIM_TEST_SUITE(map_hook, map_hook_ut::cases)
