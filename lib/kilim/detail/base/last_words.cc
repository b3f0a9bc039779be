// SPDX-License-Identifier: BSD-3-Clause
#include "kilim/detail/base/last_words.hh"

#include <cstring>
#include <new>

#include <unistd.h>

namespace kilim::inline v1 {
namespace {

const char* name = "";

void say(const char* text) noexcept {
  (void)!::write(STDERR_FILENO, text, std::strlen(text));
}

[[noreturn]] void end_with_a_sentence() {
  say(name);
  say(": the process has no memory left: ask for less, or raise its limit (ulimit -v, the cgroup's "
      "memory.max)\n");
  ::_exit(1);
}

}  // namespace

void say_when_memory_is_used_up(const char* program) noexcept {
  name = program;
  if (std::get_new_handler() == nullptr) std::set_new_handler(&end_with_a_sentence);
}

}  // namespace kilim::inline v1
