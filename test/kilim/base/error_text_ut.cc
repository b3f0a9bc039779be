// SPDX-License-Identifier: BSD-3-Clause
// Errors of control paths whose sentences hold numbers.
#include <cerrno>
#include <cstring>
#include <string>

#include "kilim/detail/base/error_text.hh"
#include "ut.hh"

using namespace kilim;

namespace error_text_ut {
namespace {

Error too_many_queues(unsigned given) {
  return error_with(EINVAL, "rxq is %u, it must be 1 to 64", given);
}

void numbers_stand_in_the_sentence() {
  const Error e = too_many_queues(70);
  EQUAL(e.code, EINVAL);
  EQUAL(std::string(e.what), "rxq is 70, it must be 1 to 64");
  EQUAL(e.syndrome, 0);
}

void an_error_keeps_its_text_when_others_follow() {
  const Error first = too_many_queues(71);
  const Error second = too_many_queues(72);
  EQUAL(std::string(first.what), "rxq is 71, it must be 1 to 64");
  EQUAL(std::string(second.what), "rxq is 72, it must be 1 to 64");
}

void a_text_that_was_said_before_is_not_stored_again() {
  const char* first = too_many_queues(73).what;
  (void)too_many_queues(74);
  EQUAL(static_cast<const void*>(too_many_queues(73).what), static_cast<const void*>(first));
}

void a_long_text_is_cut() {
  const std::string long_name(1000, 'x');
  const Error e = error_with(ENODEV, "no device is called %s", long_name.c_str());
  EQUAL(std::strlen(e.what), max_error_bytes - 1);
  EQUAL(std::string(e.what, 24), "no device is called xxxx");
}

// Runs last: it leaves no room.
void texts_beyond_the_limit_have_a_sentence_without_numbers() {
  const char* kept = too_many_queues(75).what;
  for (unsigned i = 0; i < max_error_texts; i++) (void)too_many_queues(1000 + i);
  const Error e = error_with(ENOSPC, "the %uth text", 7000u);
  EQUAL(e.code, ENOSPC);
  EQUAL(std::string(e.what), error_texts_full);
  EQUAL(std::string(kept), "rxq is 75, it must be 1 to 64");
  EQUAL(std::string(too_many_queues(75).what), "rxq is 75, it must be 1 to 64");
}

constexpr test::Case cases[] = {
    {"numbers stand in the sentence", numbers_stand_in_the_sentence},
    {"an error keeps its text when others follow", an_error_keeps_its_text_when_others_follow},
    {"a text that was said before is not stored again",
     a_text_that_was_said_before_is_not_stored_again},
    {"a long text is cut", a_long_text_is_cut},
    {"texts beyond the limit have a sentence without numbers",
     texts_beyond_the_limit_have_a_sentence_without_numbers},
};

}  // namespace
}  // namespace error_text_ut

KILIM_TEST_SUITE(error_text, error_text_ut::cases)
