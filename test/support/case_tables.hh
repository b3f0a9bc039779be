// SPDX-License-Identifier: BSD-3-Clause
// For a test program of several sources: each has a table of cases, its main file runs them as one.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "ut.hh"

namespace kilim::test {

inline int run_tables(const char* suite_name, std::initializer_list<std::span<const Case>> tables,
                      int argc, char** argv) {
  std::vector<Case> all;
  for (std::span<const Case> t : tables) all.insert(all.end(), t.begin(), t.end());
  return run_cases(suite_name, all, argc, argv);
}

}  // namespace kilim::test
