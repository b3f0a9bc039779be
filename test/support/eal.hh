// SPDX-License-Identifier: BSD-3-Clause
// Starts EAL once for a test program: ordinary pages, no bus scan, no files shared with others.
// Main thread only.
#pragma once

#include <cstdlib>

#include <rte_eal.h>
#include <rte_log.h>

namespace kilim::test {

inline bool start_eal(const char* lcores = "0") {
  static bool started = [](const char* cores) {
    const char* args[] = {"kilim_ut",       "-l",          cores,  "--no-huge",
                          "--no-shconf",    "-m",          "128",  "--no-pci",
                          "--no-telemetry", "--log-level", "error"};
    return rte_eal_init(static_cast<int>(sizeof args / sizeof *args), const_cast<char**>(args)) >=
           0;
  }(lcores);
  return started;
}

}  // namespace kilim::test
