// SPDX-License-Identifier: BSD-3-Clause
// The prompt's lines: a row of a table names a command's words, and a line is matched against all
// rows. Pure text, any thread; a line is untrusted, and what does not match is answered with a
// sentence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kilim::testpmd {

class Session;

using Words = std::vector<std::string>;

// A line that matched a row.
class Line {
 public:
  Line(Words words, std::size_t rest) : words_(std::move(words)), rest_(rest) {}
  [[nodiscard]] const std::string& word(std::size_t i) const { return words_[i]; }
  [[nodiscard]] std::size_t size() const noexcept { return words_.size(); }
  // The number at a place that the row calls <n> or <port>: decimal, or hexadecimal behind 0x.
  [[nodiscard]] uint32_t number(std::size_t i) const;
  [[nodiscard]] bool on(std::size_t i) const { return words_[i] == "on"; }
  // The words that <rest> stands for.
  [[nodiscard]] std::span<const std::string> rest() const {
    return std::span(words_).subspan(rest_);
  }

 private:
  Words words_;
  std::size_t rest_;
};

// A pattern is words with one space between: `a|b` is either, <n> and <port> numbers, <ports> a
// number or all, <text> any word, <rest> all that follow, if any.
struct CommandRow {
  const char* pattern;
  void (*run)(Session& session, const Line& line);
  const char* help;  // null: a command that is lacking here
  // What may follow `rest`; null: nothing is known.
  std::vector<std::string> (*next)(std::span<const std::string> rest) = nullptr;
};

// A run of the table under one heading of `help`.
struct Section {
  const char* name;  // a word of `help`
  const char* title;
  std::span<const CommandRow> rows;
};

Words split_words(std::string_view line);
// 0x hexadecimal or decimal, of 32 bits, and nothing else.
bool read_number(std::string_view text, uint32_t& out);

struct Match {
  const CommandRow* row = nullptr;
  std::size_t rest = 0;  // place of the first word that <rest> stands for
  std::string why;       // no row: the sentence
};
Match match_line(std::span<const Section> table, std::span<const std::string> words);

// What may stand behind the words of a line, as `?` shows it. Rows without help are not offered.
struct Offer {
  std::string word;  // as it is typed, or a place such as <n>; [RETURN]: the line may end here
  const char* kind;  // in testpmd's words, such as "Fixed STRING"
  std::string
      sentence;  // the command that it leads to, and its help; of several what they begin with
  [[nodiscard]] bool typed() const noexcept { return word.front() != '<' && word.front() != '['; }
};
std::vector<Offer> offers(std::span<const Section> table, std::span<const std::string> words);

// The words among them, sorted.
std::vector<std::string> next_words(std::span<const Section> table,
                                    std::span<const std::string> words);

}  // namespace kilim::testpmd
