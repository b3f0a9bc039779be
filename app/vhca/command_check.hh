// SPDX-License-Identifier: BSD-3-Clause
// Whether a command can be run on virtual devices: the loader must take our library into it. Looks
// at files only; one thread.
#pragma once

#include <string>

#include "kilim/result.hh"

namespace kilim::app {

struct Command {
  std::string path;  // what to execute
  std::string asan;  // the AddressSanitizer library it needs first, as it names it; else empty
};

// Searches PATH as a shell does. ENOENT: not found, EACCES: not executable, else a sentence that
// says why the loader would not take our library: static, other architecture, setuid, capabilities.
Result<Command> find_command(const char* name);

// The AddressSanitizer library that a program or library needs; empty: none.
std::string find_asan(const char* path);

}  // namespace kilim::app
