// SPDX-License-Identifier: BSD-3-Clause
#include "words.hh"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "kilim/detail/base/nearest.hh"

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

// What of a pattern stands behind a line's words and one more.
std::string behind(const char* pattern, std::size_t words) {
  std::string s;
  for (const std::string_view token : split_at(pattern, " "))
    if (words != 0)
      words--;
    else
      s.append(" ").append(token);
  return s;
}

// An offer under way. Of several commands behind a word only what follows it is told.
struct Draft {
  Offer offer;
  std::string tails;  // what follows, of each command; the first is that of `offer`
  bool ends = false;  // a command ends with the word: its sentence is the word's
  bool several = false;
};

void add_draft(std::vector<Draft>& all, Offer offer, const std::string& tail) {
  const auto same = std::find_if(all.begin(), all.end(),
                                 [&offer](const Draft& d) { return d.offer.word == offer.word; });
  if (same == all.end()) {
    all.push_back({std::move(offer), tail, tail.empty(), false});
    return;
  }
  if (same->ends) return;
  same->ends = tail.empty();
  if (same->ends) same->offer = std::move(offer);
  same->several = true;
  if (same->tails.find(tail) == std::string::npos) same->tails += "," + tail;
}

Offer finished(Draft d) {
  constexpr std::size_t most = 55;  // characters, so that a line has 80 with the word in front
  if (!d.several || d.ends) return std::move(d.offer);
  if (d.tails.size() > most) d.tails.replace(most - 3, std::string::npos, "...");
  d.offer.sentence = "then" + d.tails;
  return std::move(d.offer);
}

const char* kind_of(std::string_view token, bool several) {
  if (token == "<text>" || token == "<rest>") return "STRING";
  if (token == "<ports>") return "UINT16 or all";
  if (is_place(token)) return "UINT32";
  return several ? "Mul-choice STRING" : "Fixed STRING";
}

// What a row offers behind these words.
void add_drafts(std::vector<Draft>& all, const CommandRow& row,
                std::span<const std::string> words) {
  const Fit f = fit(row.pattern, words);
  if (!f.rest && f.words != words.size()) return;
  std::string before;
  for (const std::string& w : words) before.append(w).append(" ");
  const std::string help = std::string(": ") + row.help;
  const std::string tail = behind(row.pattern, words.size() + 1);
  if (f.rest && row.next != nullptr) {
    for (std::string& w : row.next(words.subspan(f.words)))
      add_draft(all, {std::move(w), "Fixed STRING", row.pattern + help}, "");
    return;
  }
  if (f.wanted.empty() || f.rest) add_draft(all, {"[RETURN]", "end", row.pattern + help}, "");
  if (f.wanted.empty()) return;
  const auto choices = split_at(f.wanted, "|");
  for (const std::string_view c : choices) {
    std::string said = before;
    said.append(c).append(tail).append(help);
    add_draft(all, {std::string(c), kind_of(c, choices.size() > 1), std::move(said)}, tail);
  }
  if (f.wanted == "<ports>")
    add_draft(all, {"all", kind_of("all", true), before + "all" + tail + help}, tail);
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
      if (row.help == nullptr) continue;  // no word that works
      if (f.words > best) wanted.clear();
      best = std::max(best, f.words);
      if (f.words == best && !f.wanted.empty()) add_choices(wanted, f.wanted);
    }
  }
  return {nullptr, 0, sentence(words, best, wanted)};
}

std::vector<Offer> offers(std::span<const Section> table, std::span<const std::string> words) {
  std::vector<Draft> drafts;
  for (const Section& section : table)
    for (const CommandRow& row : section.rows)
      if (row.help != nullptr) add_drafts(drafts, row, words);
  std::vector<Offer> all;
  all.reserve(drafts.size());
  for (Draft& d : drafts) all.push_back(finished(std::move(d)));
  std::stable_sort(all.begin(), all.end(),
                   [](const Offer& a, const Offer& b) { return a.word < b.word; });
  return all;
}

std::vector<std::string> next_words(std::span<const Section> table,
                                    std::span<const std::string> words) {
  std::vector<std::string> all;
  for (const Offer& o : offers(table, words))
    if (o.typed()) all.push_back(o.word);
  return all;
}

}  // namespace kilim::testpmd
