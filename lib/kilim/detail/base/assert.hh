// SPDX-License-Identifier: BSD-3-Clause
// KILIM_ASSERT: a condition that only a bug of this program can violate, never a client's bytes, a
// frame or a command line. Checked in constant expressions always, at run time without NDEBUG.
#pragma once

namespace kilim::inline v1 {
// Prints the condition with its file and line to stderr, then calls abort(). Any thread. For
// KILIM_ASSERT only.
[[noreturn]] void assert_failed(const char* condition, const char* file, int line) noexcept;
}  // namespace kilim::inline v1

#ifdef NDEBUG
#define KILIM_ASSERT(cond)                               \
  do {                                                   \
    if (__builtin_is_constant_evaluated() && !(cond))    \
      ::kilim::assert_failed(#cond, __FILE__, __LINE__); \
  } while (0)
#else
#define KILIM_ASSERT(cond)                                          \
  do {                                                              \
    if (!(cond)) ::kilim::assert_failed(#cond, __FILE__, __LINE__); \
  } while (0)
#endif
