// SPDX-License-Identifier: BSD-3-Clause
// Memory that is kept back, and what a program says that has none. Each case is a child of its own:
// the reserve and operator new's handler are the process's. The handler is called as operator new
// calls it, so that a sanitizer's own operator new makes no difference.
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

#include "in_child.hh"
#include "kilim/detail/base/last_words.hh"
#include "kilim/detail/base/memory_reserve.hh"
#include "ut.hh"

using namespace kilim;

namespace memory_reserve_ut {
namespace {

enum Answer : int { well, not_filled, not_given, given_to_others, not_asked, still_there };

// An allocation that fails.
bool fail_once() {
  const std::new_handler handler = std::get_new_handler();
  if (handler != nullptr) handler();
  return handler != nullptr;
}

int serve_a_scope() {
  if (!memory_reserve::fill() || !memory_reserve::whole()) return not_filled;
  fail_once();
  if (!memory_reserve::whole()) return given_to_others;
  if (!memory_reserve::fill()) return not_filled;
  const memory_reserve::Scope scope;
  fail_once();
  if (memory_reserve::whole() || memory_reserve::exhausted()) return not_given;
  for (int i = 0; i < 3; i++) fail_once();
  if (!memory_reserve::exhausted()) return not_given;
  if (!memory_reserve::fill() || memory_reserve::exhausted()) return not_filled;
  return well;
}

void a_scope_is_served_and_nothing_else() {
  EQUAL(test::in_child(serve_a_scope), well);
}

int making_serves() {
  const memory_reserve::Making outer;
  if (!outer) return not_filled;
  fail_once();
  if (memory_reserve::whole()) return not_given;
  const memory_reserve::Making inner;  // it is under way already, whatever is left
  return inner ? well : not_filled;
}

int make_without_memory() {
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_AS, &none) != 0) return still_there;
  const memory_reserve::Making making;
  return making ? not_given : well;
}

void a_call_that_makes_something_is_served_or_refused() {
  EQUAL(test::in_child(making_serves), well);
  EQUAL(test::in_child(make_without_memory), well);
  EQUAL(memory_reserve::Making::error().code, ENOMEM);
}

int asked = 0;
std::new_handler first = nullptr;

void count_and_ask_the_first() {
  asked++;
  first();
}

// The user's handler asks the one that it found, and the reserve puts itself in front of both.
int name_each_other() {
  if (!memory_reserve::fill()) return not_filled;
  first = std::get_new_handler();
  std::set_new_handler(count_and_ask_the_first);
  if (!memory_reserve::fill()) return not_filled;
  fail_once();
  if (asked != 1) return not_asked;
  if (std::get_new_handler() != nullptr) return still_there;
  if (!memory_reserve::fill()) return not_filled;
  std::set_new_handler(count_and_ask_the_first);
  if (!memory_reserve::fill()) return not_filled;
  fail_once();
  return asked == 2 ? well : not_asked;
}

void handlers_that_name_each_other_come_to_an_end() {
  EQUAL(test::in_child(name_each_other), well);
}

// What the child writes to its standard error, and how it ends.
std::string last_words(int& status) {
  std::array<int, 2> ends{};
  EQUAL_FATAL(::pipe(ends.data()), 0);
  status = test::in_child([&] {
    ::dup2(ends[1], STDERR_FILENO);
    say_when_memory_is_used_up("kilim-example");
    fail_once();
    return 7;
  });
  ::close(ends[1]);
  std::array<char, 512> text{};
  const ssize_t n = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  return {text.data(), static_cast<std::size_t>(n < 0 ? 0 : n)};
}

void a_program_without_memory_says_so() {
  int status = 0;
  const std::string said = last_words(status);
  EQUAL(status, 1);
  EQUAL(said,
        "kilim-example: the process has no memory left: ask for less, or raise its limit (ulimit "
        "-v, the cgroup's memory.max)\n");
}

int keep_the_users_handler() {
  std::set_new_handler([] { asked++; });
  say_when_memory_is_used_up("kilim-example");
  fail_once();
  return asked == 1 ? well : not_asked;
}

void a_handler_that_is_there_stays() {
  EQUAL(test::in_child(keep_the_users_handler), well);
}

const test::Case cases[] = {
    {"allocations of a scope are served, and no others", a_scope_is_served_and_nothing_else},
    {"a call that makes something is served, or refused where nothing can be kept back",
     a_call_that_makes_something_is_served_or_refused},
    {"handlers that name each other come to an end", handlers_that_name_each_other_come_to_an_end},
    {"a program that has no memory left says so", a_program_without_memory_says_so},
    {"a handler that is there already stays", a_handler_that_is_there_stays},
};

}  // namespace
}  // namespace memory_reserve_ut

KILIM_TEST_SUITE(memory_reserve, memory_reserve_ut::cases)
