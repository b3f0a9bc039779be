// SPDX-License-Identifier: BSD-3-Clause
// Starts EAL once for a test program: ordinary pages, no bus scan, no files shared with others; the
// telemetry socket only where the first call asks for it, under a prefix of the process's own.
// Main thread only.
#pragma once

#include <cstdlib>
#include <string>

#include <rte_eal.h>
#include <rte_log.h>
#include <unistd.h>

// Nothing where libibverbs is not linked, which exports it and has it in no header.
extern "C" [[gnu::weak]] int ibv_dofork_range(void* base, size_t size);

namespace kilim::test {

// EAL loads all drivers that are installed, and mlx5's has memory that is registered kept from
// forks (DPDK 22.11, mlx5_glue_constructor(): RDMAV_HUGEPAGES_SAFE, ibv_fork_init()). Then
// libibverbs looks up the page size of each queue and region in /proc/PID/smaps, as it comes and as
// it goes, which takes a test of many ports more time than all that it tests. Where a range was
// given back before, it is too late for that (rdma-core v44 libibverbs/memory.c).
inline void leave_forks_alone() {
  if (ibv_dofork_range != nullptr) (void)ibv_dofork_range(nullptr, 0);
}

enum class Telemetry : bool { none, socket };

inline bool start_eal(const char* lcores = "0", Telemetry telemetry = Telemetry::none) {
  static bool started = [](const char* cores, Telemetry with) {
    leave_forks_alone();
    static const std::string prefix = "--file-prefix=kilim_ut_" + std::to_string(::getpid());
    const char* args[] = {"kilim_ut",
                          "-l",
                          cores,
                          "--no-huge",
                          "--no-shconf",
                          "-m",
                          "128",
                          "--no-pci",
                          "--log-level",
                          "error",
                          with == Telemetry::socket ? prefix.c_str() : "--no-telemetry"};
    return rte_eal_init(static_cast<int>(sizeof args / sizeof *args), const_cast<char**>(args)) >=
           0;
  }(lcores, telemetry);
  return started;
}

}  // namespace kilim::test
