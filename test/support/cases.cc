// SPDX-License-Identifier: BSD-3-Clause
// Runs one suite's cases by CUnit and says how many passed (ut.hh).
#include <cstdio>
#include <cstring>

#include <CUnit/Basic.h>

#include "ut.hh"

namespace kilim::test {

int run_cases(const char* title, std::span<const Case> cases, int argc, char** argv) {
  const char* word = argc > 1 ? argv[1] : "";
  if (CU_initialize_registry() != CUE_SUCCESS) return 2;
  CU_pSuite suite = CU_add_suite(title, nullptr, nullptr);
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
  return run == 0 ? no_case : failed != 0 ? 1 : 0;
}

}  // namespace kilim::test
