// SPDX-License-Identifier: BSD-3-Clause
// What kilim-testpmd's prompt says of words without running them: which are wrong, which may
// follow, and what each is for.
#include <string>

#include "equal.hh"
#include "testpmd/commands.hh"
#include "testpmd/words.hh"
#include "ut.hh"

namespace kilim::testpmd {
namespace prompt_words_ut {
namespace {

Match match(const char* text) {
  return match_line(command_table(), split_words(text));
}

// A wrong word is no unfinished line, whatever a command that is lacking here would take.
void wrong_words_are_told_from_unfinished_lines() {
  EQUAL(match("set fwd").why.find("Bad arguments: 'fwd' is not all; known here: io mac "), 0u);
  for (const char* text : {"set fwd bogus", "set fwd bogus retry", "port config all rss bogus"}) {
    const Match m = match(text);
    CU_ASSERT_PTR_NULL(m.row);
    CU_ASSERT(m.why.find("Bad arguments: 'bogus'; known here: ") == 0);
    CU_ASSERT(m.why.find("retry") == std::string::npos);
  }
  EQUAL(match("set fwd io bogus").why, "Bad arguments: 'bogus' is too much");
  const Match lacking = match("set fwd io retry");
  CU_ASSERT_PTR_NOT_NULL_FATAL(lacking.row);
  CU_ASSERT_PTR_NULL(lacking.row->help);
}

std::string sentence_of(const char* line, const char* word) {
  for (const Offer& o : offers(command_table(), split_words(line)))
    if (o.word == word) return std::string("[") + o.kind + "]: " + o.sentence;
  return "not offered";
}

void each_word_is_offered_with_a_sentence() {
  EQUAL(sentence_of("set fwd", "mac"),
        "[Mul-choice STRING]: set fwd mac: How packets are forwarded.");
  EQUAL(sentence_of("start", "tx_first"),
        "[Fixed STRING]: start tx_first: The same after each port has sent a burst.");
  EQUAL(sentence_of("", "start"),
        "[Fixed STRING]: start: Start packet forwarding with current configuration.");
  EQUAL(sentence_of("start tx_first", "<n>"),
        "[UINT32]: start tx_first <n>: The same after N bursts.");
  EQUAL(sentence_of("start tx_first", "[RETURN]"),
        "[end]: start tx_first: The same after each port has sent a burst.");
  CU_ASSERT(sentence_of("show port stats", "all").starts_with("[Mul-choice STRING]: show port "));
  CU_ASSERT(sentence_of("", "set").starts_with("[Fixed STRING]: then "));
  for (const char* lacking : {"bpf-load", "dump_ring", "rx_vxlan_port"})
    EQUAL(sentence_of("", lacking), "not offered");
  for (const char* lacking : {"rxoffs", "raw_encap", "vxlan"})
    EQUAL(sentence_of("set", lacking), "not offered");
  for (const Offer& o : offers(command_table(), {})) {
    CU_ASSERT(!o.sentence.empty());
    CU_ASSERT(!o.sentence.starts_with("then") || o.sentence.size() < 60);
  }
}

const test::Case cases[] = {
    {"wrong words are told from unfinished lines", wrong_words_are_told_from_unfinished_lines},
    {"each word is offered with a sentence", each_word_is_offered_with_a_sentence},
};

}  // namespace
}  // namespace prompt_words_ut
}  // namespace kilim::testpmd

KILIM_TEST_SUITE(prompt_words, kilim::testpmd::prompt_words_ut::cases)
