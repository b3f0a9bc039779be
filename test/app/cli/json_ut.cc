// SPDX-License-Identifier: BSD-3-Clause
// What the programs print as JSON: order, numbers, and texts of any bytes.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/json.hh"
#include "ut.hh"

using namespace kilim::cli;

namespace json_ut {
namespace {

std::string text(std::string_view value) {
  return JsonObject().text("t", value).line();
}

void members_keep_their_order() {
  JsonObject all;
  all.text("z", "last").number("a", 7).flag("yes", true).flag("no", false).null("none");
  EQUAL(all.line(), "{\"z\": \"last\", \"a\": 7, \"yes\": true, \"no\": false, \"none\": null}\n");
}

void objects_and_lists_lie_in_an_object() {
  std::vector<JsonObject> ports;
  ports.emplace_back().number("port", 0);
  ports.emplace_back().number("port", 1);
  JsonObject drops, all;
  drops.number("rx", 3);
  all.list("ports", std::move(ports)).object("drops", std::move(drops)).list("none", {});
  EQUAL(all.line(),
        "{\"ports\": [{\"port\": 0}, {\"port\": 1}], \"drops\": {\"rx\": 3}, \"none\": []}\n");
}

void quotes_and_control_characters_are_escaped() {
  EQUAL(text("a\"b\\c"), "{\"t\": \"a\\\"b\\\\c\"}\n");
  EQUAL(text("\n\t\x01\x1f"), "{\"t\": \"\\n\\t\\u0001\\u001F\"}\n");
  EQUAL(text(std::string_view("a\0b", 3)), "{\"t\": \"a\\u0000b\"}\n");
  EQUAL(text(""), "{\"t\": \"\"}\n");
}

void what_is_no_ascii_is_escaped() {
  EQUAL(text("\u00fc\u20ac"), "{\"t\": \"\\u00FC\\u20AC\"}\n");
  EQUAL(text("\U0001F600"), "{\"t\": \"\\uD83D\\uDE00\"}\n");
}

void what_is_no_utf8_is_replaced_byte_by_byte() {
  EQUAL(text("a\xff"
             "b"),
        "{\"t\": \"a\\uFFFDb\"}\n");
  EQUAL(text("\xc3"), "{\"t\": \"\\uFFFD\"}\n");                           // cut off
  EQUAL(text("\xc0\xaf"), "{\"t\": \"\\uFFFD\\uFFFD\"}\n");                // overlong
  EQUAL(text("\xed\xa0\x80"), "{\"t\": \"\\uFFFD\\uFFFD\\uFFFD\"}\n");     // half a pair
  EQUAL(text("\xe2\x82\xac\x80\""), "{\"t\": \"\\u20AC\\uFFFD\\\"\"}\n");  // what is whole stays
}

void reals_are_rounded() {
  EQUAL(JsonObject().real("r", 1.23456, 3).line(), "{\"r\": 1.235}\n");
  EQUAL(JsonObject().real("r", 123456789.125, 2).line(), "{\"r\": 123456789.13}\n");
  EQUAL(JsonObject().real("r", 2, 2).line(), "{\"r\": 2.0}\n");
}

void what_is_not_finite_is_null() {
  EQUAL(JsonObject().real("r", std::nan(""), 3).line(), "{\"r\": null}\n");
  EQUAL(JsonObject().real("r", -HUGE_VAL, 3).line(), "{\"r\": null}\n");
}

void no_number_turns_negative() {
  EQUAL(JsonObject().number("n", INT64_MAX).line(), "{\"n\": 9223372036854775807}\n");
  EQUAL(JsonObject().number("n", UINT64_MAX).line().find('-'), std::string::npos);
}

constexpr kilim::test::Case cases[] = {
    {"members keep their order", members_keep_their_order},
    {"objects and lists lie in an object", objects_and_lists_lie_in_an_object},
    {"quotes and control characters are escaped", quotes_and_control_characters_are_escaped},
    {"what is no ASCII is escaped", what_is_no_ascii_is_escaped},
    {"what is no UTF-8 is replaced byte by byte", what_is_no_utf8_is_replaced_byte_by_byte},
    {"reals are rounded", reals_are_rounded},
    {"what is not finite is null", what_is_not_finite_is_null},
    {"no number turns negative", no_number_turns_negative},
};

}  // namespace
}  // namespace json_ut

KILIM_TEST_SUITE(json, json_ut::cases)
