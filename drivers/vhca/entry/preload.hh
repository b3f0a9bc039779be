// SPDX-License-Identifier: BSD-3-Clause
// libkilim-vhca.so, the way in for programs that know nothing of Kilim: the launcher has it loaded
// before the program's libraries and behind what others have loaded so, and the interposed names of
// preload.cc and preload_paths.cc take the place of libc's and libibverbs's. What is not a device's
// goes on to whoever stands behind. Does nothing but that until a path of a virtual device is met.
#pragma once

// Interposed functions are the only visible ones.
#define KILIM_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace kilim::vhca::entry {

// Makes the launched devices known, at its first call. Any thread.
void check_environment_once() noexcept;

}  // namespace kilim::vhca::entry
