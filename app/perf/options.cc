// SPDX-License-Identifier: BSD-3-Clause
// A table of rows gives parser and help.
#include "perf/options.hh"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include <getopt.h>

#include "perf/cmd_chooser.hh"
#include "perf/command.hh"
#include "perf/two_sided/agreement.hh"

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
    {'d', "ib-dev", "DEV", nullptr, &Options::device, nullptr, 0, 0, "device: a card's name, or vhcaN for a virtual one, with more behind commas: ,wire=SPEC ,lint=off|warn|error ,progress=poll|thread; default vhca0"},
    {'p', "port", "PORT", &Options::port, nullptr, nullptr, 1, 65535, "TCP port of the server, 1 to 65535; default 18515"},
    {'x', "gid-index", "INDEX", &Options::gid_index, nullptr, nullptr, 0, 255, "GID to connect by, 0 to 255; default: the first one of RoCE v2"},
    {'c', "connection", "TYPE", nullptr, &Options::connection, nullptr, 0, 0, "RC, the only one there is"},
    {'s', "size", "BYTES", &Options::size, nullptr, nullptr, 1, most_bytes, "bytes a message, 1 to 8388608; default 64"},
    {'n', "iters", "N", &Options::iterations, nullptr, nullptr, 1, 1'000'000'000, "messages of each queue; default 5000"},
    {'D', "duration", "SECONDS", &Options::seconds, nullptr, nullptr, 1, 3600, "run so long instead of counting messages, 1 to 3600"},
    {'q', "qp", "N", &Options::queues, nullptr, nullptr, 1, most_queues, "queue pairs, 1 to 64; default 1"},
    {'t', "tx-depth", "N", &Options::depth, nullptr, nullptr, 1, most_depth, "messages under way in a queue, 1 to 4096; default 128"},
    {'l', "post_list", "N", &Options::list, nullptr, nullptr, 1, most_depth, "messages a doorbell, 1 to 4096; default 32"},
    {0, "inline_recv", "BYTES", &Options::inline_recv, nullptr, nullptr, 0, 64, "send: of the side that receives, messages of up to so many bytes come in their completion, 0 to 64; 0: none, to 32: entries of 64 bytes, to 64: of 128; default: 32, unless MLX5_SCATTER_TO_CQE=0"},
    {'a', "all", nullptr, nullptr, nullptr, &Options::all_sizes, 0, 0, "sizes from 2 to 8388608 bytes, doubled each time"},
    {0, "check", nullptr, nullptr, nullptr, &Options::check, 0, 0, "write, read, send, atomic: every byte that arrives is looked at; slow"},
    {0, "alone", nullptr, nullptr, nullptr, &Options::alone, 0, 0, "write, read, send, atomic: queues connected to themselves, no server, no client"},
    {0, "json", nullptr, nullptr, nullptr, &Options::json, 0, 0, "results as JSON, one object a line"},
    {0, "plan", "TEXT", nullptr, &Options::plan, nullptr, 0, 0, "umr: the chooser goes the way copy, list, inline, pointer or cached wherever it can, or has other costs, as copy.piece=12; several with commas"},
    {0, "seed", "N", &Options::seed, nullptr, nullptr, 0, ~0u, "umr: of the chooser's random layouts; default 1"},
    {0, "samples", "N", &Options::samples, nullptr, nullptr, 9, 1000, "compare: samples of about 2 ms a side; default 9"},
    {0, "only", "TEXT", nullptr, &Options::only, nullptr, 0, 0, "compare: metrics that contain TEXT"},
    {'h', "help", nullptr, nullptr, nullptr, nullptr, 0, 0, "this text"},
};
// clang-format on
constexpr int row_count = static_cast<int>(sizeof rows / sizeof *rows);

// Null: taken.
const char* parse(Options& o, const Row& r, const char* value) {
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

// `values` as in "|poll|thread|".
bool is_one_of(std::string_view values, std::string_view value) {
  const std::size_t at = values.find(value);
  const std::size_t end = at + value.size();
  return at != std::string_view::npos && value.find('|') == std::string_view::npos &&
         values[at - 1] == '|' && values[end] == '|';
}

// `hca=vhca0,wire=unix:x` or `vhca0,wire=unix:x`; empty: taken.
std::string parse_device(Options& o) {
  struct Part {
    std::string_view name;
    std::string Options::*to;
    std::string_view values;  // between bars; empty: any
  };
  static constexpr Part parts[] = {{"hca=", &Options::device, ""},
                                   {"wire=", &Options::wire, ""},
                                   {"lint=", &Options::lint, "|off|warn|error|"},
                                   {"progress=", &Options::progress, "|poll|thread|"}};
  const std::string text = o.device;
  for (std::size_t at = 0, end = 0; end != text.size(); at = end + 1) {
    end = std::min(text.find(',', at), text.size());
    std::string word = text.substr(at, end - at);
    if (at == 0 && !word.starts_with("hca=")) word.insert(0, "hca=");
    bool taken = false;
    for (const Part& p : parts) {
      if (!word.starts_with(p.name)) continue;
      const std::string value = word.substr(p.name.size());
      taken = !value.empty() && (p.values.empty() || is_one_of(p.values, value));
      o.*p.to = value;
    }
    if (taken) continue;
    std::string why = "-d ";
    why.append(text).append(": ").append(word);
    why +=
        " is not understood; behind the device's name come wire=SPEC, lint=off|warn|error, "
        "progress=poll|thread";
    return why;
  }
  return "";
}

std::variant<Options, Exit> parse_words(Options o, int argc, char** argv) {
  if (optind == argc) return Exit{1, "no TEST is named; --help lists all"};
  o.test = argv[optind++];
  const Command* test = find_test(o.test);
  if (test == nullptr) return Exit{1, "the test " + o.test + " is unknown; --help lists all"};
  if (optind < argc && test->two_sided) o.host = argv[optind++];
  if (!o.host.empty() && o.alone)
    return Exit{1, "--alone and the host " + o.host + " exclude each other"};
  if (o.connection != "RC")
    return Exit{1, "-c " + o.connection + ": kilim-perf measures reliable connections (RC) only"};
  if (const char* why = o.plan.empty() ? nullptr : why_no_plan(o.plan))
    return Exit{1, "--plan=" + o.plan + ": " + why};
  if (std::string why = parse_device(o); !why.empty()) return Exit{1, why};
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
    if (const char* why = parse(o, rows[i], optarg))
      return Exit{
          1, std::string("--") + rows[i].name + "=" + optarg + " " + why + ": " + rows[i].help};
  }
  return parse_words(o, argc, argv);
}

std::string help_text() {
  std::string s =
      "kilim-perf measures Kilim: by itself on a virtual device, or between two processes.\n"
      "\n"
      "usage: kilim-perf [EAL options] -- TEST [options]         server, or a test of one process\n"
      "       kilim-perf [EAL options] -- TEST [options] HOST    client of the server at HOST\n"
      "       kilim-perf --version\n"
      "\ntests:\n";
  char line[512];
  for (const Command* t : perf_tests()) {
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
  s +=
      "\nexamples, without hardware, hugepages or root:\n"
      "  kilim-perf --no-huge --no-shconf --no-pci -l 0 -- compare\n"
      "  W=$(mktemp -d)\n"
      "  kilim-perf --no-huge --no-shconf --no-pci -l 0 -- write -d vhca0,wire=unix:$W &\n"
      "  kilim-perf --no-huge --no-shconf --no-pci -l 1 -- write -d vhca0,wire=unix:$W localhost\n";
  return s;
}

}  // namespace kilim::perf
