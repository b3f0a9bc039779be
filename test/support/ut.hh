// SPDX-License-Identifier: BSD-3-Clause
// Runs a table of CUnit cases: `x_ut` runs all, `x_ut WORD` those whose name contains WORD, `x_ut
// -l` lists them. A name is a sentence. No case run is a failure. The last line is "N passed, N
// failed". A case asserts by EQUAL (equal.hh), or by CU_ASSERT where nothing is compared.
#pragma once

#include <cstdio>
#include <cstring>
#include <span>

#include <CUnit/Basic.h>

#include "equal.hh"

namespace kilim::test {

struct Case {
  const char* name;
  void (*run)();
};

inline int run_cases(const char* suite_name, std::span<const Case> cases, int argc, char** argv) {
  const char* word = argc > 1 ? argv[1] : "";
  if (CU_initialize_registry() != CUE_SUCCESS) return 2;
  CU_pSuite suite = CU_add_suite(suite_name, nullptr, nullptr);
  for (const Case& c : cases) {
    if (std::strcmp(word, "-l") == 0) {
      std::printf("%s\n", c.name);
    } else if (std::strstr(c.name, word) != nullptr &&
               CU_add_test(suite, c.name, c.run) == nullptr) {
      return 2;
    }
  }
  if (std::strcmp(word, "-l") == 0) return 0;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned run = CU_get_number_of_tests_run();
  unsigned failed = CU_get_number_of_tests_failed();
  CU_cleanup_registry();
  std::printf("\n%u passed, %u failed\n", run - failed, failed);
  return run == 0 || failed != 0 ? 1 : 0;
}

}  // namespace kilim::test

// In the test's main file, behind its table.
#define KILIM_UT_MAIN(suite_name, cases)                            \
  int main(int argc, char** argv) {                                 \
    return ::kilim::test::run_cases(suite_name, cases, argc, argv); \
  }
