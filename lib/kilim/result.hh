// SPDX-License-Identifier: BSD-3-Clause
// Result<T> is a value, or an Error that says why there is none; Outcome is the same for hot paths,
// in two registers and with two numbers. Every function of the library that can fail returns one of
// them, or a count.
//
// Threads: pure values, any thread.
//
// Errors: Error::code is a positive errno, Error::what a sentence, Error::syndrome the device's own
// word where it gave one. Outcome::why is a Refusal; text() makes it a sentence.
//
// Example:
//   #include <cerrno>
//   #include <cstdio>
//   kilim::Result<int> half_of(int even) {
//     if (even % 2 != 0) return kilim::Error{EINVAL, "an odd number has no half"};
//     return even / 2;
//   }
//   int main() {
//     const kilim::Result<int> half = half_of(7);
//     if (!half) std::fprintf(stderr, "%s\n", half.error().what);
//     return half ? 0 : half.error().code;
//   }
#pragma once

#include "kilim/detail/base/outcome.hh"
#include "kilim/detail/base/result.hh"
