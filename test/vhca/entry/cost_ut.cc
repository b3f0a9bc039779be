// SPDX-License-Identifier: BSD-3-Clause
// What a device costs that does nothing. Measures times: not for valgrind.

#include <chrono>
#include <fstream>
#include <thread>

#include <infiniband/verbs.h>
#include <sys/resource.h>
#include <unistd.h>

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

// Of this process alone: what else runs on the machine does not count.
std::chrono::microseconds cpu_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto us = [](const timeval& t) { return t.tv_sec * 1'000'000 + t.tv_usec; };
  return std::chrono::microseconds(us(used.ru_utime) + us(used.ru_stime));
}

// The first one makes the device list and redirects the libraries; it is the dearest.
void attaching_is_quick() {
  const auto begin = cpu_time();
  CU_ASSERT(attach_threaded("quick0") != nullptr);
  CU_ASSERT(cpu_time() - begin < 50ms);
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::size_t>(::getpagesize());
}

// Three devices, each opened, with connected queues: less than one of them may take.
void a_device_is_small() {
  constexpr std::size_t limit = std::size_t{16} << 20;
  const std::size_t before = resident_bytes();
  CU_ASSERT_FATAL(before != 0);
  ibv_context* open[3] = {};
  const char* names[] = {"small0", "small1", "small2"};
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_FATAL(attach_threaded(names[i]) != nullptr);
    open[i] = kilim::test::open_by_name(names[i]);
    CU_ASSERT_FATAL(open[i] != nullptr);
  }
  {
    RcPair first(open[0]);
    RcPair second(open[1]);
    RcPair third(open[2]);
    CU_ASSERT(first.ok() && second.ok() && third.ok());
    CU_ASSERT(resident_bytes() - before < limit);
  }
  for (ibv_context* context : open) ibv_close_device(context);
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
    {"three devices with live queues take less than 16 MiB", a_device_is_small},
    {"an idle device with live queues costs under 1 % of a core", idle_costs_nothing},
};

}  // namespace

KILIM_UT_MAIN("cost", cases)
