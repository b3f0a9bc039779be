// SPDX-License-Identifier: BSD-3-Clause
// What a device costs that does nothing. Measures times: not for valgrind.

#include <chrono>
#include <thread>

#include <infiniband/verbs.h>
#include <sys/resource.h>

#include "rc_pair.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"

using namespace kilim::vhca;
using namespace std::chrono_literals;
using kilim::test::RcPair;

namespace {

Attached* attach_threaded(const char* name) {
  AttachConfig config;
  config.name = name;
  config.progress = Progress::thread;
  auto attached = attach(config);
  return attached.ok() ? *attached : nullptr;
}

// The first one makes the device list and redirects the libraries; it is the dearest.
void attaching_is_quick() {
  const auto begin = std::chrono::steady_clock::now();
  CU_ASSERT(attach_threaded("quick0") != nullptr);
  CU_ASSERT(std::chrono::steady_clock::now() - begin < 50ms);
}

std::chrono::microseconds cpu_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto us = [](const timeval& t) { return t.tv_sec * 1'000'000 + t.tv_usec; };
  return std::chrono::microseconds(us(used.ru_utime) + us(used.ru_stime));
}

void idle_costs_nothing() {
  CU_ASSERT_FATAL(attach_threaded("idle0") != nullptr);
  ibv_context* context = kilim::test::open_by_name("idle0");
  CU_ASSERT_FATAL(context != nullptr);
  {
    RcPair pair(context);
    CU_ASSERT_FATAL(pair.ok());
    std::this_thread::sleep_for(5ms);
    const auto before = cpu_time();
    std::this_thread::sleep_for(1s);
    CU_ASSERT(cpu_time() - before < 10ms);
  }
  ibv_close_device(context);
}

const kilim::test::Case cases[] = {
    {"a device is attached within 50 ms", attaching_is_quick},
    {"an idle device with live queues costs under 1 % of a core", idle_costs_nothing},
};

}  // namespace

KILIM_UT_MAIN("cost", cases)
