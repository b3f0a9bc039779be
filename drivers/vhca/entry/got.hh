// SPDX-License-Identifier: BSD-3-Clause
// Redirects the calls that one shared library makes to others: changes the addresses in its global
// offset table, and nobody else's. Set-up only, one thread at a time; calls on their way through
// the library meanwhile go to either.
#pragma once

#include <cstddef>
#include <span>

namespace kilim::vhca {

struct Redirect {
  const char* symbol;
  void* to;
};

// In every loaded library whose file name begins with `library`. Returns how many entries were
// changed; 0 where no such library is loaded or it was done already; negative errno where memory
// could not be made writable.
int redirect_calls(const char* library, std::span<const Redirect> redirects) noexcept;

}  // namespace kilim::vhca
