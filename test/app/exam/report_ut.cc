// SPDX-License-Identifier: BSD-3-Clause
// Reports written, read back and laid beside each other; pages; lines of a child.
#include <string>
#include <variant>

#include "compare.hh"
#include "question.hh"
#include "report.hh"
#include "ut.hh"

using namespace kilim::exam;

namespace report_ut {
namespace {

Report sample() {
  Report r;
  r.program = "0.1";
  r.device = {{"part", "4125"}};
  r.host = {{"kernel", "6.1"}};
  r.entries.push_back(
      {"E15", "a title", "wrong data", "", {{"error", "none"}}, {{"seconds", "1"}}});
  return r;
}

std::string differences(const Report& a, const Report& b) {
  return compare(a, b, "a", "b").text;
}

void a_report_is_read_back_as_it_was_written() {
  const std::string json = json_of(sample());
  const auto read = parse_report(json);
  EQUAL_FATAL(std::holds_alternative<Report>(read), true);
  EQUAL(json_of(std::get<Report>(read)), json);
}

void what_is_measured_is_no_difference() {
  Report other = sample();
  other.host[0].value = "6.2";
  other.entries[0].measured[0].value = "2";
  EQUAL(differences(sample(), other), "a / b\n0 differences\n");
}

void a_verdict_that_differs_says_what_it_means() {
  Report card = sample();
  card.entries[0].verdict = "never wrong";
  EQUAL(differences(card, sample()),
        std::string(
            "a / b\nE15 a title\n  verdict: \"never wrong\" / \"wrong data\"\n  for Kilim: ") +
            meaning_of(*find_question("E15"), "never wrong") + "\n1 differences\n");
}

void a_fact_that_differs_or_is_missing_is_named() {
  Report other = sample();
  other.entries[0].facts = {{"other", "x"}};
  EQUAL(differences(sample(), other),
        std::string(
            "a / b\nE15 a title\n  error: none / not there\n  other: not there / x\n  facts: ") +
            find_question("E15")->facts_mean + "\n2 differences\n");
}

void bytes_of_dumps_that_differ_are_counted() {
  Report a = sample(), b = sample();
  a.entries[0].facts = {{"group", std::string(80, '0')}};
  b.entries[0].facts = {{"group", std::string(78, '0') + "2a"}};
  EQUAL(compare(a, b, "a", "b").count, 1u);
  CU_ASSERT(differences(a, b).find("1 bytes differ: 0x27: 00 / 2a") != std::string::npos);
}

void a_question_of_one_report_alone_is_a_difference() {
  Report empty = sample();
  empty.entries.clear();
  EQUAL(differences(sample(), empty), "a / b\nE15 was asked for a alone\n1 differences\n");
  EQUAL(differences(empty, sample()), "a / b\nE15 was asked for b alone\n1 differences\n");
}

void a_page_escapes_what_a_device_says() {
  Report r = sample();
  r.device[0].value = "<script>&\"";
  const std::string page = html_of(r);
  CU_ASSERT(page.find("&lt;script&gt;&amp;&quot;") != std::string::npos);
  EQUAL(page.find("<script"), std::string::npos);
}

void lines_that_are_cut_off_are_left_out() {
  Found found;
  read_lines("f\ta\t1\nx\ty\tz\nf\tno\n\nv\t\tdone\nf\tb\t2", found);
  EQUAL(found.facts.size(), 1u);
  EQUAL(found.verdict, "done");
  EQUAL(static_cast<int>(found.ending), static_cast<int>(Ending::answered));
}

void each_question_has_an_id_of_its_own_and_two_verdicts() {
  const auto all = all_questions();
  for (const Question* q : all) {
    EQUAL(find_question(q->id), q);
    CU_ASSERT(q->verdicts.size() >= 2);
    CU_ASSERT(q->seconds >= 5);
  }
  CU_ASSERT(all.size() >= 30);
}

constexpr kilim::test::Case cases[] = {
    {"a report is read back as it was written", a_report_is_read_back_as_it_was_written},
    {"what is measured is no difference", what_is_measured_is_no_difference},
    {"a verdict that differs says what it means", a_verdict_that_differs_says_what_it_means},
    {"a fact that differs or is missing is named", a_fact_that_differs_or_is_missing_is_named},
    {"bytes of dumps that differ are counted", bytes_of_dumps_that_differ_are_counted},
    {"a question of one report alone is a difference",
     a_question_of_one_report_alone_is_a_difference},
    {"a page escapes what a device says", a_page_escapes_what_a_device_says},
    {"lines that are cut off are left out", lines_that_are_cut_off_are_left_out},
    {"each question has an id of its own and two verdicts",
     each_question_has_an_id_of_its_own_and_two_verdicts},
};

}  // namespace
}  // namespace report_ut

KILIM_TEST_SUITE(report, report_ut::cases)
