// SPDX-License-Identifier: BSD-3-Clause
// EQUAL itself: what it holds to be the same, what it says of what is not, and that a fatal one
// ends its case. Each case of `saying` fails once on purpose, and CUnit's list of failures is read.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "equal.hh"
#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/ident.hh"
#include "kilim/detail/base/result.hh"

using namespace kilim;

namespace {

enum class Colour : uint8_t { red = 7, blue = 9 };
enum Plain { zero, one };
struct Point {
  int x;
  bool operator==(const Point&) const = default;
};
struct [[gnu::packed]] Packed {
  uint8_t before;
  uint32_t count;
  uint32_t low : 4;
};

bool reached = false;
Status refused() {
  return Error{EINVAL, "no such key"};
}
int next() {
  static int count = 0;
  return ++count;
}

// A case, and the only thing that it must be heard to say.
struct Saying {
  void (*run)();
  const char* said;
};

const Saying saying[] = {
    {[] { EQUAL(1 + 2, 0u); }, "EQUAL(1 + 2, 0u): 3 is not 0"},
    {[] { EQUAL(-1, ~0u); }, "EQUAL(-1, ~0u): -1 is not 4294967295 (0xffffffff)"},
    {[] { EQUAL(uint64_t{1} << 63, INT64_MIN); },
     "EQUAL(uint64_t{1} << 63, INT64_MIN): 9223372036854775808 (0x8000000000000000) is not "
     "-9223372036854775808"},
    {[] { EQUAL(reached, true); }, "EQUAL(reached, true): false is not true"},
    {[] { EQUAL('a', 98); }, "EQUAL('a', 98): 97 is not 98"},
    {[] { EQUAL(std::byte{3}, 4); }, "EQUAL(std::byte{3}, 4): 3 is not 4"},
    {[] { EQUAL(one, zero); }, "EQUAL(one, zero): 1 is not 0"},
    {[] { EQUAL(Colour::red, Colour::blue); }, "EQUAL(Colour::red, Colour::blue): 7 is not 9"},
    {[] { EQUAL(1.5, 2); }, "EQUAL(1.5, 2): 1.5 is not 2"},
    {[] { EQUAL(std::string{"ab"}, "abc"); },
     "EQUAL(std::string{\"ab\"}, \"abc\"): \"ab\" is not \"abc\""},
    {[] {
       const char* nobody = nullptr;
       EQUAL(nobody, "x");
     },
     "EQUAL(nobody, \"x\"): none is not \"x\""},
    {[] { EQUAL(reinterpret_cast<int*>(0x1000), nullptr); },
     "EQUAL(reinterpret_cast<int*>(0x1000), nullptr): 0x1000 is not none"},
    {[] { EQUAL(std::optional<int>{}, 3); }, "EQUAL(std::optional<int>{}, 3): none is not 3"},
    {[] { EQUAL(std::optional<unsigned>{4u}, std::nullopt); },
     "EQUAL(std::optional<unsigned>{4u}, std::nullopt): 4 is not none"},
    {[] { EQUAL(Lkey{5}, Lkey{6}); }, "EQUAL(Lkey{5}, Lkey{6}): 5 is not 6"},
    {[] { EQUAL(be32{5}, be32{6}); }, "EQUAL(be32{5}, be32{6}): 5 is not 6"},
    {[] { EQUAL(Result<int>{3}, 4); }, "EQUAL(Result<int>{3}, 4): 3 is not 4"},
    {[] { EQUAL(Result<int>{refused().error()}, 4); },
     "EQUAL(Result<int>{refused().error()}, 4): error 22 (no such key) is not 4"},
    {[] { EQUAL(Point{1}, Point{2}); }, "EQUAL(Point{1}, Point{2}): they differ"},
    {[] {
       std::atomic<int> count{8};
       EQUAL(count, 9);
     },
     "EQUAL(count, 9): 8 is not 9"},
    {[] { EQUAL(next() * 10, next()); }, "EQUAL(next() * 10, next()): 10 is not 2"},
    {[] {
       EQUAL_FATAL(reached, 2);
       reached = true;
     },
     "EQUAL_FATAL(reached, 2): false is not 2"},
};

void nothing_is_said() {
  const Packed p{1, 7, 3};
  const volatile uint32_t device_word = 5;
  char there[] = "abc", also[] = "abc";
  char* const first = there;
  const std::vector<bool> bits{true};
  EQUAL(p.count, 7);
  EQUAL(p.low, 3u);
  EQUAL(device_word, 5);
  EQUAL(there, "abc");
  EQUAL(first, &there[0]);
  CU_ASSERT(!(test::equality::same(first, static_cast<char*>(also))));
  EQUAL(static_cast<const char*>(first), static_cast<const char*>(also));
  EQUAL(std::string_view{"abc"}, std::string{"abc"});
  EQUAL(static_cast<const char*>(nullptr), static_cast<const char*>(nullptr));
  EQUAL(bits[0], true);
  EQUAL(std::optional<uint8_t>{3}, 3ull);
  EQUAL(std::optional<int>{}, std::nullopt);
  EQUAL(std::make_unique<int>(4) == nullptr, false);
  EQUAL(uint8_t{200}, 200);
  EQUAL(Result<unsigned>{3u}, 3);
  EQUAL(Rkey{7}, Rkey{7});
  EQUAL(true, 1);
}

// The only sentence of the last run, or why there is not one.
std::string only_failure() {
  CU_pFailureRecord first = CU_get_failure_list();
  if (first == nullptr) return "nothing";
  if (first->pNext != nullptr) return "more than one sentence";
  return first->strCondition;
}

}  // namespace

int main() {
  if (CU_initialize_registry() != CUE_SUCCESS) return 2;
  CU_pSuite suite = CU_add_suite("equal", nullptr, nullptr);
  unsigned passed = 0, failed = 0;
  auto judge = [&](void (*run)(), const char* want) {
    CU_pTest test = CU_add_test(suite, want, run);
    if (test == nullptr) return void(failed++);
    CU_run_test(suite, test);
    const std::string said = only_failure();
    const bool right = said == want && CU_get_number_of_asserts() != 0;
    (right ? passed : failed)++;
    if (!right) std::printf("%s\n  was to be said, and was: %s\n", want, said.c_str());
  };
  for (const Saying& s : saying) judge(s.run, s.said);
  judge(nothing_is_said, "nothing");
  (reached ? failed : passed)++;  // behind the assertion that ends its case
  CU_cleanup_registry();
  std::printf("\n%u passed, %u failed\n", passed, failed);
  return failed != 0 || passed != std::size(saying) + 2 ? 1 : 0;
}
