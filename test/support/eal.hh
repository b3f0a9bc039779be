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

namespace kilim::test {

enum class Telemetry : bool { none, socket };

inline bool start_eal(const char* lcores = "0", Telemetry telemetry = Telemetry::none) {
  static bool started = [](const char* cores, Telemetry with) {
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
