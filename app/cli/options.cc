// SPDX-License-Identifier: BSD-3-Clause
// What the table of options needs of getopt_long, and the sentences.
#include "cli/options.hh"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <system_error>

#include <getopt.h>

#include "cli/folded.hh"
#include "kilim/detail/base/nearest.hh"
#include "kilim/version.h"

namespace kilim::cli {
namespace {

constexpr std::size_t help_column = 30;
constexpr int first_long = 0x100;  // above all letters
constexpr const char* see_help = ": --help lists all";

bool may_lack_value(const Spelling& s) {
  return s.value != nullptr && *s.value == '[';
}

struct Getopt {
  std::string letters;
  std::vector<option> longs;
};

// A leading ':' tells a missing value from an unknown option.
Getopt getopt_of(std::span<const Spelling> all, Order order) {
  Getopt g{order == Order::options_first ? "+:" : ":", {}};
  for (std::size_t i = 0; i < all.size(); i++) {
    const int has = all[i].value == nullptr  ? no_argument
                    : may_lack_value(all[i]) ? optional_argument
                                             : required_argument;
    g.longs.push_back({all[i].name, has, nullptr, first_long + static_cast<int>(i)});
    if (all[i].letter == 0) continue;
    g.letters += all[i].letter;
    if (has != no_argument) g.letters += has == optional_argument ? "::" : ":";
  }
  g.longs.push_back({});
  return g;
}

Exit unknown(std::span<const Spelling> all, std::string_view word) {
  std::string why = " is unknown";
  if (word.starts_with("--")) {
    std::vector<std::string_view> known;
    for (const Spelling& s : all) known.push_back(s.name);
    why += nearest_hint(word.substr(2, word.find('=') - 2), known);
  }
  return {1, "the option " + std::string(word) + why + see_help};
}

// getopt_long's '?' and ':'. optopt is a letter, a row's number, or 0 for a long name that no row
// has.
Exit refusal(int got, std::span<const Spelling> all, const char* word) {
  const bool is_long = optopt == 0 || optopt >= first_long;
  const std::string written = is_long ? word : std::string("-") + static_cast<char>(optopt);
  if (got == ':') return {1, "the option " + written + " misses its value" + see_help};
  if (optopt >= first_long) return {1, "the option " + written + " takes no value" + see_help};
  return unknown(all, written);
}

std::size_t row_of(std::span<const Spelling> all, int got) {
  if (got >= first_long) return static_cast<std::size_t>(got - first_long);
  const auto at = std::ranges::find(all, static_cast<char>(got), &Spelling::letter);
  return static_cast<std::size_t>(at - all.begin());
}

}  // namespace

Fault parse_number(std::string_view text, Range range, uint64_t& out) {
  uint64_t n = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, n);
  if (error == std::errc::invalid_argument || at != end) return Fault::no_number;
  if (error != std::errc{} || n < range.low || n > range.high) return Fault::out_of_range;
  if (range.power_of_two && (n & (n - 1)) != 0) return Fault::out_of_range;
  out = n;
  return Fault::none;
}

std::optional<Exit> store_number(const Spelling& s, const char* value, Range range, uint64_t& out) {
  const Fault fault = parse_number(value, range, out);
  if (fault == Fault::none) return std::nullopt;
  const std::string_view help = s.help;
  const char* why = fault == Fault::no_number ? " is no number: " : " is out of range: ";
  return Exit{1, std::string("--") + s.name + "=" + value + why +
                     std::string(help.substr(0, help.find('\n')))};
}

std::variant<int, Exit> scan(std::span<const Spelling> all, const CommandLine& line,
                             const Take& take) {
  const Getopt g = getopt_of(all, line.order);
  optind = 0;  // glibc: begin anew
  opterr = 0;
  for (;;) {
    const int got = getopt_long(line.argc, line.argv, g.letters.c_str(), g.longs.data(), nullptr);
    if (got == -1) return optind;
    if (got == '?' || got == ':') return refusal(got, all, line.argv[optind - 1]);
    if (auto exit = take(row_of(all, got), optarg)) return *exit;
  }
}

std::string help_line(std::string_view left, std::string_view right) {
  std::string s = "  " + std::string(left);
  s.resize(std::max(s.size() + 1, help_column), ' ');
  for (const char c : right) {
    s += c;
    if (c == '\n') s.append(help_column, ' ');
  }
  return s + "\n";
}

std::string help_of(std::span<const Spelling> all) {
  std::string s;
  for (const Spelling& o : all) {
    std::string left = o.letter != 0 ? std::string("-") + o.letter + ", --" : "    --";
    left += o.name;
    if (o.value != nullptr) left += may_lack_value(o) ? o.value : std::string("=") + o.value;
    s += help_line(left, o.help);
  }
  return s;
}

int say(const char* program, const Exit& exit) {
  if (exit.code == 0) return std::fputs(folded(exit.message).c_str(), stdout) < 0 ? 1 : 0;
  if (!exit.message.empty()) std::fprintf(stderr, "%s: %s\n", program, exit.message.c_str());
  return exit.code;
}

bool asks_version(int argc, char** argv) {
  return argc > 1 && std::strcmp(argv[1], "--version") == 0;
}

int say_version(const char* program) {
  return std::printf("%s %s\n", program, kilim_version()) < 0 ? 1 : 0;
}

}  // namespace kilim::cli
