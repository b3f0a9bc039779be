// SPDX-License-Identifier: BSD-3-Clause
// Redirects the calls that one shared library makes to others: changes the addresses in its global
// offset table, and nobody else's. Set-up only; calls on their way through the library meanwhile go
// to either.
#pragma once

#include <cstddef>
#include <span>

namespace kilim::vhca::entry {

struct Redirect {
  const char* symbol;  // without its version
  void* to;            // the function that its calls reach from then on
};

// In every loaded library whose file name begins with `library`. Returns how many entries were
// changed; 0 where no such library is loaded or it was done already; negative errno where memory
// could not be made writable. `entries` gets the places of those that lead to where they should, as
// many as it has room for, in front. The loader's lock is held: several threads come one by one.
int redirect_calls(const char* library, std::span<const Redirect> redirects,
                   std::span<void**> entries = {}) noexcept;

}  // namespace kilim::vhca::entry
