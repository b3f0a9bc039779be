// SPDX-License-Identifier: BSD-3-Clause
// What a device costs that does nothing. Measures times: not for valgrind.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include <infiniband/verbs.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc_pair_fixture.hh"
#include "ut.hh"
#include "vhca/entry/attach.hh"

using namespace kilim::vhca;
using namespace std::chrono_literals;
using kilim::test::RcPair;

namespace cost_ut {
namespace {

entry::Attached* attach_threaded(const char* name) {
  kilim::DeviceSpec config;
  config.name = name;
  config.progress = kilim::Progress::thread;
  auto attached = entry::attach(config);
  return attached.ok() ? *attached : nullptr;
}

// Of this process alone: what else runs on the machine does not count.
std::chrono::microseconds cpu_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto us = [](const timeval& t) { return t.tv_sec * 1'000'000 + t.tv_usec; };
  return std::chrono::microseconds(us(used.ru_utime) + us(used.ru_stime));
}

// Of a process's first attachment, which makes the device list and redirects the libraries: it is
// the dearest. In a child, so that there can be several.
std::chrono::microseconds first_attachment() {
  const pid_t child = ::fork();
  if (child == 0) {
    // The device list on a disk is as dear as what others write there makes it.
    ::setenv("XDG_RUNTIME_DIR", "/dev/shm", 1);
    const auto begin = cpu_time();
    const bool attached = attach_threaded("quick0") != nullptr;
    const auto ms = (cpu_time() - begin) / 1ms;
    std::error_code none;
    std::filesystem::remove_all(entry::sysfs_root(), none);  // what exit() would do
    ::_exit(attached ? static_cast<int>(std::min<long>(ms, 254)) : 255);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 255ms;
  return std::chrono::milliseconds(WEXITSTATUS(status));
}

// Another process that takes the caches away makes one dearer, and not all.
void attaching_is_quick() {
  auto least = first_attachment();
  for (int i = 0; i < 9 && least >= 50ms; i++) least = std::min(least, first_attachment());
  CU_ASSERT(least < 50ms);
}

// Without pages of files: how much of the program's own text has been read is luck.
std::size_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::size_t sum = 0;
  for (std::string word; status >> word;) {
    std::size_t kib = 0;
    if ((word == "RssAnon:" || word == "RssShmem:") && status >> kib) sum += kib << 10;
  }
  return sum;
}

// AddressSanitizer keeps a second stack a thread, its shadow and what was freed: 12 to 16 MiB more.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t sanitizers = std::size_t{48} << 20;
#else
constexpr std::size_t sanitizers = 0;
#endif

// Three devices, each opened, with connected queues: less than one of them may take.
void a_device_is_small() {
  constexpr std::size_t limit = (std::size_t{16} << 20) + sanitizers;
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
    CU_ASSERT(first.ok());
    CU_ASSERT(second.ok());
    CU_ASSERT(third.ok());
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
}  // namespace cost_ut

KILIM_TEST_SUITE(cost, cost_ut::cases)
