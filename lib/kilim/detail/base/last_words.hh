// SPDX-License-Identifier: BSD-3-Clause
// What a program says that has no memory left: a sentence instead of an exception that nothing
// catches. For a program's main(), which owns the process; a library leaves the handler of operator
// new to its user (base/memory_reserve.hh asks that one where it cannot help). Never allocates.
#pragma once

namespace kilim::inline v1 {

// From now on an allocation by `new` that fails ends the process with status 1, behind a sentence
// that begins with the program's name, which lives as long as the process. Nothing is cleaned up:
// what lies in files then is swept by the next start, as after SIGKILL. A handler that is there
// already stays.
void say_when_memory_is_used_up(const char* program) noexcept;

}  // namespace kilim::inline v1
