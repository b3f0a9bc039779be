// SPDX-License-Identifier: BSD-3-Clause
// A program that only polls gets its work done by polling. There is no thread here and nobody else
// runs the adapter: without the hooks nothing would ever complete.

#include <cerrno>
#include <cstring>
#include <ctime>

#include <infiniband/verbs.h>

#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"
#include "vhca/entry/poll_hook.hh"

using namespace kilim::vhca;
using kilim::test::RcPair;

namespace poll_hook_ut {
namespace {

ibv_context* open_unhooked(const char* name) {
  kilim::DeviceSpec config;
  config.name = name;
  return entry::attach(config).ok() ? kilim::test::open_by_name(name) : nullptr;
}

int poll_often(ibv_cq* cq, ibv_wc& wc) {
  int n = 0;
  for (int i = 0; i < 100 && n == 0; i++) n = ibv_poll_cq(cq, 1, &wc);
  return n;
}

void plain_queue() {
  ibv_context* context = open_unhooked("plain0");
  CU_ASSERT_FATAL(context != nullptr);
  {
    RcPair pair(context);
    CU_ASSERT_FATAL(pair.ok());
    ibv_wc wc{};
    EQUAL(pair.post_write(32), 0);
    EQUAL(poll_often(pair.cq(), wc), 0);
    EQUAL(entry::hook_polls(context), context);
    EQUAL(entry::hook_polls(context), context);  // twice is once
    for (int i = 0; i < 10; i++) {
      EQUAL(poll_often(pair.cq(), wc), 1);
      EQUAL(wc.status, IBV_WC_SUCCESS);
      EQUAL(pair.post_write(32), 0);
    }
  }
  ibv_close_device(context);
}

void extended_queue() {
  ibv_context* context = entry::hook_polls(open_unhooked("extended0"));
  CU_ASSERT_FATAL(context != nullptr);
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
  ibv_cq_ex* cq = ibv_create_cq_ex(context, &attr);
  CU_ASSERT_FATAL(cq != nullptr);
  {
    RcPair pair(context, false, ibv_cq_ex_to_cq(cq));
    CU_ASSERT_FATAL(pair.ok());
    ibv_poll_cq_attr poll{};
    EQUAL(ibv_start_poll(cq, &poll), ENOENT);
    for (int i = 0; i < 10; i++) {
      EQUAL(pair.post_write(32), 0);
      int result = ENOENT;
      for (int k = 0; k < 100 && result == ENOENT; k++) result = ibv_start_poll(cq, &poll);
      EQUAL_FATAL(result, 0);
      EQUAL(cq->status, IBV_WC_SUCCESS);
      EQUAL(cq->wr_id, 32);
      ibv_end_poll(cq);
    }
  }
  ibv_close_device(context);
}

uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

void clock_without_engine() {
  ibv_context* context = entry::hook_polls(open_unhooked("clock0"));
  CU_ASSERT_FATAL(context != nullptr);
  for (int i = 0; i < 3; i++) {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    const uint64_t from = monotonic_ns();
    EQUAL(ibv_query_rt_values_ex(context, &values), 0);
    const auto read = static_cast<uint64_t>(values.raw_clock.tv_nsec);
    CU_ASSERT(read >= from);
    CU_ASSERT(read <= monotonic_ns());
  }
  ibv_close_device(context);
}

void leaves_others_alone() {
  EQUAL(entry::hook_polls(static_cast<ibv_context*>(nullptr)), nullptr);
  ibv_context other{};
  other.cmd_fd = 0;
  EQUAL(entry::hook_polls(&other), &other);
  EQUAL(other.ops.poll_cq, nullptr);
}

const kilim::test::Case cases[] = {
    {"a plain completion queue runs the adapter when it is empty", plain_queue},
    {"an extended completion queue runs the adapter when it is empty", extended_queue},
    {"the clock is read without the engine", clock_without_engine},
    {"contexts of other devices are left alone", leaves_others_alone},
};

}  // namespace
}  // namespace poll_hook_ut

KILIM_TEST_SUITE(poll_hook, poll_hook_ut::cases)
