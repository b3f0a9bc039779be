// SPDX-License-Identifier: BSD-3-Clause
#include "words.hh"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "kilim/base/nearest.hh"

namespace kilim::testpmd {
namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr std::size_t shown = 64;  // characters of a wrong word that a sentence repeats

std::vector<std::string_view> split_at(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(separators, at);
    if (begin == std::string_view::npos) break;
    at = std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, at - begin));
  }
  return parts;
}

bool is_place(std::string_view token) {
  return token.front() == '<';
}

bool fits(std::string_view token, std::string_view word) {
  uint32_t n;
  if (token == "<text>") return true;
  if (token == "<ports>" && word == "all") return true;
  if (is_place(token)) return read_number(word, n);
  const auto choices = split_at(token, "|");
  return std::find(choices.begin(), choices.end(), word) != choices.end();
}

// How many words of a line fit to a pattern, and what it wants behind them.
struct Fit {
  std::size_t words = 0;
  std::string_view wanted;  // empty: the pattern is at its end
  bool rest = false;
};

Fit fit(const char* pattern, std::span<const std::string> words) {
  Fit f;
  for (const std::string_view token : split_at(pattern, " ")) {
    f.rest = token == "<rest>";
    f.wanted = token;
    if (f.rest || f.words == words.size() || !fits(token, words[f.words])) return f;
    f.words++;
  }
  f.wanted = "";
  return f;
}

void add_choices(std::vector<std::string_view>& to, std::string_view token) {
  for (const std::string_view c : split_at(token, "|"))
    if (std::find(to.begin(), to.end(), c) == to.end()) to.push_back(c);
}

void add_printable(std::string& to, std::string_view word) {
  for (const char c : word.substr(0, shown)) to += c < ' ' || c > '~' ? '?' : c;
  if (word.size() > shown) to += "...";
}

std::string sentence(std::span<const std::string> words, std::size_t good,
                     std::span<const std::string_view> wanted) {
  std::string s = good == 0 ? "Command not found: '" : "Bad arguments: '";
  const bool ends = good == words.size();
  if (words.empty()) return s + "'";
  add_printable(s, ends ? words[good - 1] : words[good]);
  s += "'";
  if (ends) s += " is not all";
  if (!ends) s += nearest_hint(words[good], wanted);
  if (good == 0) return s + "; help lists all";
  if (wanted.empty()) return s + " is too much";
  s += "; known here:";
  for (const std::string_view w : wanted) {
    s += ' ';
    s += w;
  }
  return s;
}

}  // namespace

bool read_number(std::string_view text, uint32_t& out) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out, hex ? 16 : 10);
  return error == std::errc{} && at == end;
}

uint32_t Line::number(std::size_t i) const {
  uint32_t n = 0;
  (void)read_number(words_[i], n);
  return n;
}

Words split_words(std::string_view line) {
  Words words;
  for (const std::string_view w : split_at(line, blanks)) words.emplace_back(w);
  return words;
}

Match match_line(std::span<const Section> table, std::span<const std::string> words) {
  std::size_t best = 0;
  std::vector<std::string_view> wanted;
  for (const Section& section : table) {
    for (const CommandRow& row : section.rows) {
      const Fit f = fit(row.pattern, words);
      if (f.rest || (f.wanted.empty() && f.words == words.size())) return {&row, f.words, ""};
      if (f.words > best) wanted.clear();
      best = std::max(best, f.words);
      if (f.words == best && !f.wanted.empty()) add_choices(wanted, f.wanted);
    }
  }
  return {nullptr, 0, sentence(words, best, wanted)};
}

std::vector<std::string> next_words(std::span<const Section> table,
                                    std::span<const std::string> words) {
  std::vector<std::string> all;
  for (const Section& section : table) {
    for (const CommandRow& row : section.rows) {
      const Fit f = fit(row.pattern, words);
      if (f.rest && row.next != nullptr) {
        for (std::string& w : row.next(words.subspan(f.words))) all.push_back(std::move(w));
        continue;
      }
      if (f.words != words.size() || f.wanted.empty()) continue;
      std::vector<std::string_view> choices;
      add_choices(choices, f.wanted == "<ports>" ? "all" : f.wanted);
      for (const std::string_view c : choices)
        if (!is_place(c)) all.emplace_back(c);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace kilim::testpmd
