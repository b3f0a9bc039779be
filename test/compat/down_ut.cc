// SPDX-License-Identifier: BSD-3-Clause
// A domain of relaxed regions whose queue fails and cannot be brought back at first: nothing is
// posted there until it can, and calls say so.
#include <cerrno>

#include <unistd.h>

#include "../vhca/verbs/refused_states_fixture.hh"
#include "compat_cases.hh"

namespace down_ut {
namespace {

using namespace kilim::test;

// Whose second send request fails: of a domain that registers, its second registration.
ibv_context* failing_device() {
  kilim::DeviceSpec config;
  config.name = "compat6";
  config.failing = "wqe@2";
  auto attached = kilim::vhca::entry::attach(config);
  CU_ASSERT_TRUE_FATAL(attached.ok());
  return open_hooked("compat6");
}

void a_queue_that_stays_down_is_left_alone() {
  ibv_context* const c = failing_device();
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  ibv_pd* const pd = ibv_alloc_pd(c);
  Filled memory(4);
  ibv_mr* const first = ibv_reg_mr_relaxed(pd, memory.at, page, IBV_ACCESS_LOCAL_WRITE);
  CU_ASSERT_PTR_NOT_NULL_FATAL(first);
  refused_states = {.left = 1'000'000};
  const auto refused = [&](const char* words) {
    return refused_with(ibv_reg_mr_relaxed(pd, memory.at + page, page, IBV_ACCESS_LOCAL_WRITE), EIO,
                        words);
  };
  CU_ASSERT_TRUE(refused("refused the registration"));
  EQUAL(refused_states.asked, 1);
  // Its reset was refused, and is not asked for at once.
  CU_ASSERT_TRUE(refused("back to work"));
  EQUAL(ibv_flush_relaxed_mr(pd), EIO);
  EQUAL(refused_states.asked, 1);
  ::usleep(15'000);
  CU_ASSERT_TRUE(refused("back to work"));
  EQUAL(refused_states.asked, 2);
  refused_states = {};
  ::usleep(25'000);
  ibv_mr* const second = ibv_reg_mr_relaxed(pd, memory.at + page, page, IBV_ACCESS_LOCAL_WRITE);
  CU_ASSERT_PTR_NOT_NULL(second);
  EQUAL(refused_states.asked, 1);
  for (ibv_mr* mr : {first, second})
    if (mr != nullptr) EQUAL(ibv_dereg_mr_relaxed(mr), 0);
  EQUAL(ibv_flush_relaxed_mr(pd), 0);
  EQUAL(ibv_dealloc_pd(pd), 0);
  EQUAL(ibv_close_device(c), 0);
}

constexpr Case cases[] = {
    {"a queue that stays down is left alone, and tried again later",
     a_queue_that_stays_down_is_left_alone},
};

}  // namespace
}  // namespace down_ut

KILIM_TEST_SUITE(down, down_ut::cases)
