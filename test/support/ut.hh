// SPDX-License-Identifier: BSD-3-Clause
// Suites of CUnit cases. A program holds the suites of a room's test files and each run of it runs
// one, in a process of its own: `umr_tests --suite umr_wqe` runs all cases of it, with a WORD those
// whose name contains WORD, with -l it lists them. Without --suite all suites run, one after the
// other; --suites lists them. A case's name is a sentence, and asserts by EQUAL (equal.hh), or by
// CU_ASSERT where nothing is compared. No case run is a failure. The last line is "N passed, N
// failed". Main thread only.
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

// A suite of this program, which is known from before main() on.
struct Suite {
  using Run = int (*)(int argc, char** argv);
  Suite(const char* its_name, Run its_run) noexcept;
  const char* name;
  Run run;
  const Suite* next;
};

// Exit status of a suite none of whose cases has the wanted name.
inline constexpr int no_case = 3;

// Runs what `argv` asks for, whose first word is passed over. Returns the program's exit status.
int run_cases(const char* title, std::span<const Case> cases, int argc, char** argv);

// Starts this program again, with the words that it was started with. Returns only if that fails.
void start_again() noexcept;

}  // namespace kilim::test

// Behind a test file's table: the table is the suite NAME.
#define KILIM_TEST_SUITE(name, cases)                          \
  KILIM_TEST_MAIN(name) {                                      \
    return ::kilim::test::run_cases(#name, cases, argc, argv); \
  }
// In front of a body like main()'s, of a suite that has something to set up or several tables.
#define KILIM_TEST_MAIN(name)                                                   \
  static int run_suite_##name(int, char**);                                     \
  static const ::kilim::test::Suite this_suite_##name{#name, run_suite_##name}; \
  static int run_suite_##name([[maybe_unused]] int argc, [[maybe_unused]] char** argv)
