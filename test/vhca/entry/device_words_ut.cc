// SPDX-License-Identifier: BSD-3-Clause
// The words of a device: each changes its field and no other, a text has them all, and what is
// wrong is refused with the word and what would do.
#include <cstdio>
#include <string>

#include "ut.hh"
#include "vhca/entry/device_words.hh"

namespace device_words_ut {
namespace {

using kilim::DeviceSpec;
using kilim::Progress;
using namespace kilim::vhca;

// A value of each word that is not the one that it has by itself.
constexpr struct {
  const char* word;
  const char* value;
} good[] = {{"wire", "cable:w"},    {"netdev", "tap0"},
            {"progress", "thread"}, {"fault", "fatal@9"},
            {"lint", "warn"},       {"order", "weak:7"},
            {"profile", "vf"},      {"gid", "fd00::1"},
            {"ip", "10.0.0.1/24"},  {"mac", "02:4b:4c:00:00:01"},
            {"seed", "5"},          {"journal", "/tmp/j"},
            {"explain", "on"}};

void each_sets_its_own() {
  EQUAL(std::size(good), entry::device_words().size());
  for (const auto& row : good) {
    const entry::DeviceWord* word = entry::find_device_word(row.word);
    CU_ASSERT_FATAL(word != nullptr);
    DeviceSpec spec;
    EQUAL(word->read(spec, row.value), "");
    for (const entry::DeviceWord& w : entry::device_words()) {
      if (w.is_set(spec) != (&w == word)) std::printf("%s sets %s\n", row.word, w.name);
      EQUAL(w.is_set(spec), &w == word);
    }
    CU_ASSERT(std::string(word->not_of_cards).starts_with(std::string(word->name) + "= "));
  }
}

void a_text_has_them_all() {
  DeviceSpec spec;
  std::string text = "name=rdma0";
  for (const auto& row : good) text += std::string(",") + row.word + "=" + row.value;
  EQUAL(entry::read_device_text(text + ",fault=wqe@7+100,ip=fd00::2/64", spec), "");
  DeviceSpec wanted;
  wanted.name = "rdma0";
  wanted.profile = "vf";
  wanted.wires = {"cable:w"};
  wanted.netdev = "tap0";
  wanted.mac = "02:4b:4c:00:00:01";
  wanted.gid = "fd00::1";
  wanted.ips = {"10.0.0.1/24", "fd00::2/64"};
  wanted.seed = 5;
  wanted.journal = "/tmp/j";
  wanted.progress = Progress::thread;
  wanted.lint = "warn";
  wanted.explain = "on";
  wanted.order = "weak:7";
  wanted.fatal_at = 9;
  wanted.failing = "wqe@7+100";
  CU_ASSERT(spec == wanted);
}

void nothing_is_the_plain_device() {
  DeviceSpec spec;
  EQUAL(entry::read_device_text("", spec), "");
  CU_ASSERT(spec == DeviceSpec{});
}

// A part of the sentence for each, beside the quoted word.
constexpr struct {
  const char* text;
  const char* part;
} bad[] = {{"lint", "a word and its value"},
           {"lint=", "a word and its value"},
           {"=warn", "unknown"},
           {"lnt=warn", "(is 'lint' meant?)"},
           {"speed=9", "known are name= wire= netdev= progress="},
           {"lint=yes", "off, warn or error"},
           {"explain=yes", "on or off"},
           {"lint=warn,lint=warn", "given twice"},
           {"name=a,name=b", "given twice"},
           {"name=a b", "1 to 32 letters"},
           {"order=strict:1", "strict, weak"},
           {"profile=cx9", "no such profile"},
           {"fault=fatal@0", "fatal@N"},
           {"fault=drop@1", "fatal@N"},
           {"fault=wqe@0", "wqe@N"},
           {"mac=01:00:00:00:00:01", "one station"},
           {"gid=fe80::1", "not a link-local"},
           {"ip=224.0.0.1", "10.0.0.1/24"},
           {"seed=18446744073709551616", "a number"},
           {"seed=-1", "a number"},
           {"wire=unik:/tmp/a", "(is 'unix:' meant?)"},
           {"progress=fast", "poll or thread"},
           {"lint=warn,,seed=1", "a word and its value"}};

void refusals_say_what_would_do() {
  for (const auto& row : bad) {
    DeviceSpec spec;
    const std::string why = entry::read_device_text(row.text, spec);
    if (why.find(row.part) == std::string::npos) std::printf("%s: %s\n", row.text, why.c_str());
    CU_ASSERT(why.find(row.part) != std::string::npos);
    EQUAL(why.substr(0, 1), "\"");
  }
}

const kilim::test::Case cases[] = {
    {"each word sets its own field", each_sets_its_own},
    {"a text has them all", a_text_has_them_all},
    {"an empty text is the plain device", nothing_is_the_plain_device},
    {"a refusal says what would do", refusals_say_what_would_do},
};

}  // namespace
}  // namespace device_words_ut

KILIM_TEST_SUITE(device_words, device_words_ut::cases)
