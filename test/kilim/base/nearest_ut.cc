// SPDX-License-Identifier: BSD-3-Clause
// Which word was meant.
#include <array>
#include <string>
#include <string_view>

#include "kilim/detail/base/nearest.hh"
#include "ut.hh"

using namespace kilim;

namespace nearest_ut {
namespace {

constexpr std::array<std::string_view, 6> modes = {"io",     "mac",    "macswap",
                                                   "rxonly", "txonly", "umr"};

void slips_of_the_finger_are_counted() {
  EQUAL(word_distance("", "abc"), 3);
  EQUAL(word_distance("abc", ""), 3);
  EQUAL(word_distance("same", "same"), 0);
  EQUAL(word_distance("net_kilm", "net_kilim"), 1);
  EQUAL(word_distance("net_klim", "net_kilim"), 1);
  EQUAL(word_distance("net_kiilm", "net_kilim"), 1);
  EQUAL(word_distance("ab", "ba"), 1);
  EQUAL(word_distance("kitten", "sitting"), 3);
}

void the_nearest_word_is_found() {
  EQUAL(nearest_word("mcswap", modes), "macswap");
  EQUAL(nearest_word("rxonyl", modes), "rxonly");
  EQUAL(nearest_word("oi", modes), "io");
  EQUAL(nearest_hint("urm", modes), " (is 'umr' meant?)");
}

void what_is_near_to_nothing_has_no_nearest_word() {
  CU_ASSERT(nearest_word("forward", modes).empty());
  CU_ASSERT(nearest_word("", modes).empty());
  CU_ASSERT(nearest_word(std::string(1u << 20, 'x'), modes).empty());
  CU_ASSERT(nearest_hint("quite-else", modes).empty());
}

constexpr test::Case cases[] = {
    {"slips of the finger are counted", slips_of_the_finger_are_counted},
    {"the nearest word is found", the_nearest_word_is_found},
    {"what is near to nothing has no nearest word", what_is_near_to_nothing_has_no_nearest_word},
};

}  // namespace
}  // namespace nearest_ut

KILIM_TEST_SUITE(nearest, nearest_ut::cases)
