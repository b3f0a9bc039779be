// SPDX-License-Identifier: BSD-3-Clause
// Command lines of the programs: one table of rows gives the parser, the help text and the
// sentences of refusals. Main thread, at the start: getopt_long keeps its place in globals. Words
// are untrusted: numbers have a range, and nothing may follow them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kilim::cli {

// Why a program ends before its work: say() prints the message, a refusal to stderr.
struct Exit {
  int code = 0;
  std::string message;
};

struct Range {
  uint64_t low = 0;
  uint64_t high = std::numeric_limits<uint64_t>::max();
  bool power_of_two = false;
};

enum class Fault : uint8_t { none, no_number, out_of_range };

// Decimal digits and nothing else. `out` changes only where there is no fault.
Fault parse_number(std::string_view text, Range range, uint64_t& out);

// Reads a value; null where none is written. Gives the reason of a refusal, empty: accepted.
template <typename O>
using Read = std::string (*)(O& options, const char* value);
// A text that the option prints; the program ends then.
using Text = std::string (*)();

template <typename O>
using Target =
    std::variant<Text, Read<O>, uint32_t O::*, uint64_t O::*, std::string O::*, bool O::*>;

// How an option is written.
struct Spelling {
  char letter;        // 0: the long form only
  const char* name;   // of the long form
  const char* value;  // as the help shows it, in [ ] if it may be left out; null: none
  const char* help;   // its first line is part of the refusal of a number
};

template <typename O>
struct Row {
  char letter;
  const char* name;
  const char* value;
  Target<O> target;
  const char* help;
  Range range{};  // of a number
};

enum class Order : uint8_t { mixed, options_first };

struct CommandLine {
  int argc;
  char** argv;  // the program's name first
  Order order;
};

// A row's number and its value; gives the Exit where the program shall end.
using Take = std::function<std::optional<Exit>(std::size_t row, const char* value)>;
std::variant<int, Exit> scan(std::span<const Spelling> spellings, const CommandLine& line,
                             const Take& take);
std::optional<Exit> store_number(const Spelling& s, const char* value, Range range, uint64_t& out);
std::string help_of(std::span<const Spelling> spellings);

template <typename O, std::size_t n>
std::vector<Spelling> spellings(const Row<O> (&rows)[n]) {
  std::vector<Spelling> all;
  for (const Row<O>& r : rows) all.push_back({r.letter, r.name, r.value, r.help});
  return all;
}

template <typename T, typename O>
std::optional<Exit> store(O& o, const Row<O>& r, const char* value) {
  uint64_t n = 0;
  Range range = r.range;
  range.high = std::min<uint64_t>(range.high, std::numeric_limits<T>::max());
  auto refusal = store_number({r.letter, r.name, r.value, r.help}, value, range, n);
  if (!refusal) o.*std::get<T O::*>(r.target) = static_cast<T>(n);
  return refusal;
}

template <typename O>
std::optional<Exit> take(O& o, const Row<O>& r, const char* value) {
  if (auto* text = std::get_if<Text>(&r.target)) return Exit{0, (*text)()};
  if (auto* flag = std::get_if<bool O::*>(&r.target)) o.** flag = true;
  if (auto* text = std::get_if<std::string O::*>(&r.target)) o.** text = value;
  if (std::holds_alternative<uint32_t O::*>(r.target)) return store<uint32_t>(o, r, value);
  if (std::holds_alternative<uint64_t O::*>(r.target)) return store<uint64_t>(o, r, value);
  auto* read = std::get_if<Read<O>>(&r.target);
  const std::string why = read == nullptr ? "" : (*read)(o, value);
  if (why.empty()) return std::nullopt;
  return Exit{1, std::string("--") + r.name + "=" + (value == nullptr ? "" : value) + ": " + why};
}

// Fills `o`; gives the place in argv of the first word that is no option, which mixed order moves
// behind all options.
template <typename O, std::size_t n>
std::variant<int, Exit> parse(O& o, const Row<O> (&rows)[n], const CommandLine& line) {
  return scan(spellings(rows), line,
              [&](std::size_t row, const char* value) { return take(o, rows[row], value); });
}

// A line for each option; further lines of its help stand under the first.
template <typename O, std::size_t n>
std::string help_of(const Row<O> (&rows)[n]) {
  return help_of(spellings(rows));
}
// A line of two columns like those of the options, for other lists of a help text.
std::string help_line(std::string_view left, std::string_view right);

// Prints, and gives the exit code.
int say(const char* program, const Exit& exit);

// --version is the first word: behind EAL's options it would be EAL's.
bool asks_version(int argc, char** argv);
int say_version(const char* program);

}  // namespace kilim::cli
