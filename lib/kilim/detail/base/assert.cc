// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/base/assert.hh"

#include <cstdio>
#include <cstdlib>

namespace kilim::inline v1 {

void assert_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace kilim::inline v1
