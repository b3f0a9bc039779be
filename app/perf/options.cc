// SPDX-License-Identifier: BSD-3-Clause
// A table of rows gives parser and help.
#include "options.hh"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include <getopt.h>

#include "perf_test.hh"

namespace kilim::perf {
namespace {

struct Row {
  char letter;  // 0: only the long form
  const char* name;
  const char* value;  // null: none
  uint32_t Options::*number;
  std::string Options::*text;
  bool Options::*flag;
  uint32_t low, high;
  const char* help;
};

// clang-format off
constexpr Row rows[] = {
    {'d', "ib-dev", "DEV", nullptr, &Options::device, nullptr, 0, 0, "name of the virtual device that is attached for the test; default vhca0"},
    {'s', "size", "BYTES", &Options::size, nullptr, nullptr, 1, 1u << 23, "bytes a message, 1 to 8388608; default 64"},
    {'n', "iters", "N", &Options::iterations, nullptr, nullptr, 1, 1'000'000'000, "messages; default 100000"},
    {'D', "duration", "SECONDS", &Options::seconds, nullptr, nullptr, 1, 3600, "run so long instead of counting messages"},
    {'t', "tx-depth", "N", &Options::depth, nullptr, nullptr, 1, 128, "messages under way, 1 to 128; default 128"},
    {'l', "post_list", "N", &Options::list, nullptr, nullptr, 1, 128, "messages a doorbell, 1 to 128; default 32"},
    {'a', "all", nullptr, nullptr, nullptr, &Options::all_sizes, 0, 0, "sizes from 2 to 8388608 bytes, doubled each time"},
    {0, "json", nullptr, nullptr, nullptr, &Options::json, 0, 0, "results as JSON, one object a line"},
    {0, "samples", "N", &Options::samples, nullptr, nullptr, 9, 1000, "compare: samples of about 2 ms a side; default 9"},
    {0, "only", "TEXT", nullptr, &Options::only, nullptr, 0, 0, "compare: metrics that contain TEXT"},
    {'h', "help", nullptr, nullptr, nullptr, nullptr, 0, 0, "this text"},
};
// clang-format on
constexpr int row_count = static_cast<int>(sizeof rows / sizeof *rows);

// Null: taken.
const char* take(Options& o, const Row& r, const char* value) {
  if (r.flag != nullptr) o.*r.flag = true;
  if (r.text != nullptr) o.*r.text = value;
  if (r.number == nullptr) return nullptr;
  uint32_t n = 0;
  const char* end = value + std::strlen(value);
  const auto [at, error] = std::from_chars(value, end, n);
  if (error != std::errc{} || at != end || n < r.low || n > r.high) return "is out of range";
  o.*r.number = n;
  return nullptr;
}

int row_of(int got) {
  if (got >= 0x100) return got - 0x100;
  for (int i = 0; i < row_count; i++)
    if (rows[i].letter == got) return i;
  return -1;
}

std::variant<Options, Exit> take_words(Options o, int argc, char** argv) {
  if (optind == argc) return Exit{1, "no TEST is named; --help lists all"};
  o.test = argv[optind++];
  if (find_test(o.test) == nullptr)
    return Exit{1, "the test " + o.test + " is unknown; --help lists all"};
  if (optind < argc) return Exit{1, std::string("the word ") + argv[optind] + " is too many"};
  return o;
}

}  // namespace

std::variant<Options, Exit> parse_options(int argc, char** argv) {
  std::vector<option> longs;
  std::string letters;
  for (int i = 0; i < row_count; i++) {
    longs.push_back({rows[i].name, rows[i].value != nullptr ? required_argument : no_argument,
                     nullptr, 0x100 + i});
    if (rows[i].letter == 0) continue;
    letters += rows[i].letter;
    if (rows[i].value != nullptr) letters += ':';
  }
  longs.push_back({});
  Options o;
  optind = 0;
  opterr = 0;
  for (int got; (got = getopt_long(argc, argv, letters.c_str(), longs.data(), nullptr)) != -1;) {
    const int i = row_of(got);
    if (i < 0)
      return Exit{1, std::string("the option ") + argv[optind - 1] +
                         " is unknown or misses its value; --help lists all"};
    if (rows[i].letter == 'h') {
      std::fputs(help_text().c_str(), stdout);
      return Exit{};
    }
    if (const char* why = take(o, rows[i], optarg))
      return Exit{
          1, std::string("--") + rows[i].name + "=" + optarg + " " + why + ": " + rows[i].help};
  }
  return take_words(o, argc, argv);
}

std::string help_text() {
  std::string s =
      "kilim-perf measures Kilim on a virtual device in its own process.\n"
      "\n"
      "usage: kilim-perf [EAL options] -- TEST [options]\n"
      "\ntests:\n";
  char line[256];
  for (const PerfTest* t : perf_tests()) {
    std::snprintf(line, sizeof line, "  %-24s %s\n", t->name, t->help);
    s += line;
  }
  s += "\noptions:\n";
  for (const Row& r : rows) {
    std::string left = r.letter != 0 ? std::string("-") + r.letter + ", --" : "    --";
    left += r.name;
    if (r.value != nullptr) left += std::string("=") + r.value;
    std::snprintf(line, sizeof line, "  %-24s %s\n", left.c_str(), r.help);
    s += line;
  }
  s += "\nexample, without hardware, hugepages or root:\n"
       "  kilim-perf --no-huge --no-shconf --no-pci -l 0 -- compare\n";
  return s;
}

}  // namespace kilim::perf
