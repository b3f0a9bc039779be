// SPDX-License-Identifier: BSD-3-Clause
// Command lines as a table of rows reads them: values, refusals, the help text.
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/folded.hh"
#include "cli/options.hh"
#include "ut.hh"

using namespace kilim::cli;

namespace options_ut {
namespace {

struct Options {
  uint32_t size = 1;
  uint32_t any = 0;
  uint64_t count = 0;
  std::string name;
  bool all = false;
  std::optional<std::string> file;
};

std::string read_file(Options& o, const char* value) {
  o.file = value == nullptr ? "" : value;
  return *o.file == "bad" ? "this file is no good" : "";
}

std::string manual();

constexpr Row<Options> rows[] = {
    {'s', "size", "BYTES", &Options::size, "bytes, 2 to 64, a power of two\nmore", {2, 64, true}},
    {0, "any", "N", &Options::any, "any number"},
    {'c', "count", "N", &Options::count, "a count, 1 or more", {1}},
    {0, "name", "NAME", &Options::name, "a name"},
    {'a', "all", nullptr, &Options::all, "all"},
    {0, "file", "[=FILE]", read_file, "a file"},
    {'h', "help", nullptr, manual, "this text"},
};

std::string manual() {
  return help_of(rows);
}

// What parse() makes of words behind the program's name.
struct Parsed {
  explicit Parsed(std::initializer_list<const char*> given, Order order = Order::options_first)
      : words(given.begin(), given.end()) {
    argv.push_back(program.data());
    for (std::string& w : words) argv.push_back(w.data());
    const int argc = static_cast<int>(argv.size());
    argv.push_back(nullptr);
    const auto result = parse(o, rows, {argc, argv.data(), order});
    if (const auto* at = std::get_if<int>(&result)) place = *at;
    if (const auto* exit = std::get_if<Exit>(&result)) said = exit->message, code = exit->code;
  }

  std::string program = "program";
  std::vector<std::string> words;
  std::vector<char*> argv;
  Options o;
  int place = -1;  // of the first word that is no option
  int code = -1;
  std::string said;
};

void values_are_stored() {
  const Parsed p{"-s", "8", "--count=18446744073709551615", "--name", "x y", "-a", "--any=0"};
  EQUAL(p.place, 8);
  EQUAL(p.o.size, 8);
  EQUAL(p.o.count, UINT64_MAX);
  EQUAL(p.o.name, "x y");
  CU_ASSERT(p.o.all);
  const Parsed none{};
  EQUAL(none.place, 1);
  EQUAL(none.o.size, 1);
  CU_ASSERT(!none.o.all);
}

void numbers_keep_their_range() {
  for (const char* value : {"1", "65", "0", "3", "99999999999999999999"}) {
    const Parsed p{"--size", value};
    EQUAL(p.code, 1);
    EQUAL(p.said,
          std::string("--size=") + value + " is out of range: bytes, 2 to 64, a power of two");
    EQUAL(p.o.size, 1);
  }
  EQUAL(Parsed({"--size", "2"}).o.size, 2);
  EQUAL(Parsed({"--size", "64"}).o.size, 64);
  EQUAL(Parsed({"--any", "4294967295"}).o.any, UINT32_MAX);
  EQUAL(Parsed({"--any", "18446744073709551616"}).code, 1);
  EQUAL(Parsed({"--any", "4294967296"}).said, "--any=4294967296 is out of range: any number");
}

void what_is_no_number_is_refused() {
  for (const char* value : {"", " 4", "4 ", "4x", "x", "-4", "+4", "0x4", "4.0"}) {
    const Parsed p{"-c", value};
    EQUAL(p.said, std::string("--count=") + value + " is no number: a count, 1 or more");
    EQUAL(p.o.count, 0);
  }
}

void a_missing_value_is_said() {
  EQUAL(Parsed({"--size"}).said, "the option --size misses its value: --help lists all");
  EQUAL(Parsed({"-a", "-s"}).said, "the option -s misses its value: --help lists all");
  EQUAL(Parsed({"--all=yes"}).said, "the option --all=yes takes no value: --help lists all");
}

void an_unknown_option_is_said_and_the_nearest_one() {
  EQUAL(Parsed({"--szie=4"}).said,
        "the option --szie=4 is unknown (is 'size' meant?): --help lists all");
  EQUAL(Parsed({"--quite-else"}).said, "the option --quite-else is unknown: --help lists all");
  EQUAL(Parsed({"-x"}).said, "the option -x is unknown: --help lists all");
  EQUAL(Parsed({"-ax"}).said, "the option -x is unknown: --help lists all");
}

void a_value_may_be_left_out_where_the_row_says_so() {
  EQUAL(Parsed({"--file"}).o.file.value_or("none"), "");
  EQUAL(Parsed({"--file=f"}).o.file.value_or("none"), "f");
  EQUAL(Parsed({"--file", "f"}).place, 2);
  EQUAL(Parsed({"--file=bad"}).said, "--file=bad: this file is no good");
}

void words_end_the_options_or_stand_between_them() {
  const Parsed first{"-a", "word", "-s", "4"};
  EQUAL(first.place, 2);
  EQUAL(first.o.size, 1);
  const Parsed mixed({"word", "-s", "4", "more"}, Order::mixed);
  EQUAL(mixed.place, 3);
  EQUAL(mixed.o.size, 4);
  EQUAL(std::string(mixed.argv[3]), "word");
  const Parsed ended({"--", "-s"}, Order::mixed);
  EQUAL(ended.place, 2);
}

void the_help_text_is_the_rows() {
  const Parsed p{"--help", "--size=0"};
  EQUAL(p.code, 0);
  EQUAL(p.said,
        "  -s, --size=BYTES            bytes, 2 to 64, a power of two\n"
        "                              more\n"
        "      --any=N                 any number\n"
        "  -c, --count=N               a count, 1 or more\n"
        "      --name=NAME             a name\n"
        "  -a, --all                   all\n"
        "      --file[=FILE]           a file\n"
        "  -h, --help                  this text\n");
  EQUAL(help_line("a word longer than the column is wide", "x"),
        "  a word longer than the column is wide x\n");
}

void version_is_the_first_word() {
  char program[] = "program", version[] = "--version", other[] = "-v";
  char* only[] = {program, version, nullptr};
  char* behind[] = {program, other, version, nullptr};
  CU_ASSERT(asks_version(2, only));
  CU_ASSERT(!asks_version(3, behind));
  CU_ASSERT(!asks_version(1, only));
}

// What is too much for 80 columns goes on in the second one, with the lines that do so themselves.
void long_lines_are_folded() {
  const std::string left = "  --word                    ";
  const std::string forty(40, 'x'), twenty(20, 'y'), indent(left.size(), ' ');
  EQUAL(folded("short\n\n  also short\n"), "short\n\n  also short\n");
  EQUAL(folded(left + forty + " " + twenty + "\n" + indent + "z\n  --next  w\n"),
        left + forty + "\n" + indent + twenty + " z\n  --next  w\n");
  EQUAL(folded(forty + " " + forty + "\n" + twenty + "\n"),
        forty + "\n" + forty + " " + twenty + "\n");
  const std::string word(60, 'w');
  EQUAL(folded(indent + word + "\n"), std::string(20, ' ') + word + "\n");
  EQUAL(folded(std::string(90, 'w') + "\n"), std::string(90, 'w') + "\n");
}

constexpr kilim::test::Case cases[] = {
    {"values are stored", values_are_stored},
    {"numbers keep their range", numbers_keep_their_range},
    {"what is no number is refused", what_is_no_number_is_refused},
    {"a missing value is said", a_missing_value_is_said},
    {"an unknown option is said, and the nearest one",
     an_unknown_option_is_said_and_the_nearest_one},
    {"a value may be left out where the row says so",
     a_value_may_be_left_out_where_the_row_says_so},
    {"words end the options, or stand between them", words_end_the_options_or_stand_between_them},
    {"the help text is the rows", the_help_text_is_the_rows},
    {"--version is the first word", version_is_the_first_word},
    {"long lines are folded", long_lines_are_folded},
};

}  // namespace
}  // namespace options_ut

KILIM_TEST_SUITE(options, options_ut::cases)
