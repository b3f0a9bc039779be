// SPDX-License-Identifier: BSD-3-Clause
#include "compare.hh"

#include <algorithm>
#include <utility>

#include "question.hh"

namespace kilim::exam {
namespace {

constexpr std::size_t longest_value = 60, most_places = 8;

const std::string* value_of(const std::vector<Pair>& pairs, const std::string& name) {
  const auto at = std::ranges::find(pairs, name, &Pair::name);
  return at == pairs.end() ? nullptr : &at->value;
}

const Entry* entry_in(const Report& r, const std::string& id) {
  const auto at = std::ranges::find(r.entries, id, &Entry::id);
  return at == r.entries.end() ? nullptr : &*at;
}

std::string shortened(const std::string& value) {
  return value.size() <= longest_value ? value : value.substr(0, longest_value) + "...";
}

// Which bytes of two dumps differ.
std::string places_of(const std::string& a, const std::string& b) {
  std::string s;
  std::size_t count = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); i += 2) {
    const std::string x = i < a.size() ? a.substr(i, 2) : "--";
    const std::string y = i < b.size() ? b.substr(i, 2) : "--";
    if (x == y) continue;
    if (count++ < most_places) s += printed(" 0x%zx: %s / %s,", i / 2, x.c_str(), y.c_str());
  }
  if (!s.empty()) s.pop_back();
  return printed("%zu bytes differ:", count) + s + (count > most_places ? ", ..." : "");
}

bool is_dump(const std::string& s) {
  return s.size() > longest_value && s.find_first_not_of("0123456789abcdef") == s.npos;
}

struct Text {
  Differences out;
  std::string card, expected;

  // Somebody else wrote the report, so its control characters do not reach the terminal.
  void line(std::string s) {
    for (char& c : s)
      if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
    out.text += s + "\n";
  }
  void heading(std::size_t at, std::string s) {
    const std::string below = out.text.substr(at);
    out.text.resize(at);
    line(std::move(s));
    out.text += below;
  }
  void differs(const std::string& where, const std::string* a, const std::string* b) {
    out.count++;
    if (a != nullptr && b != nullptr && is_dump(*a) && is_dump(*b))
      return line("  " + where + ": " + places_of(*a, *b));
    line("  " + where + ": " + (a == nullptr ? "not there" : shortened(*a)) + " / " +
         (b == nullptr ? "not there" : shortened(*b)));
  }
};

// True: a value differs.
bool compare_pairs(const std::vector<Pair>& a, const std::vector<Pair>& b, Text& text) {
  const std::size_t before = text.out.count;
  for (const Pair& p : a) {
    const std::string* other = value_of(b, p.name);
    if (other == nullptr || *other != p.value) text.differs(p.name, &p.value, other);
  }
  for (const Pair& p : b)
    if (value_of(a, p.name) == nullptr) text.differs(p.name, nullptr, &p.value);
  return text.out.count != before;
}

void compare_entries(const Entry& a, const Entry& b, Text& text) {
  const Question* q = find_question(a.id);
  const bool same = a.verdict == b.verdict && (a.verdict != "not run" || a.why == b.why);
  const std::size_t at = text.out.text.size();
  if (!same) {
    text.out.count++;
    const auto said = [](const Entry& e) {
      return "\"" + e.verdict + "\"" + (e.why.empty() ? "" : " (" + e.why + ")");
    };
    text.line("  verdict: " + said(a) + " / " + said(b));
    const char* means = q == nullptr ? nullptr : meaning_of(*q, a.verdict);
    if (means != nullptr) text.line(std::string("  for Kilim: ") + means);
  }
  if (compare_pairs(a.facts, b.facts, text) && q != nullptr)
    text.line(std::string("  facts: ") + q->facts_mean);
  if (text.out.text.size() != at)
    text.heading(at, a.id + " " + (a.title.empty() ? b.title : a.title));
}

}  // namespace

Differences compare(const Report& card, const Report& expected, const std::string& card_name,
                    const std::string& expected_name) {
  Text text;
  text.line(card_name + " / " + expected_name);
  const std::size_t at = text.out.text.size();
  if (compare_pairs(card.device, expected.device, text)) text.out.text.insert(at, "the device\n");
  for (const Entry& e : card.entries) {
    const Entry* other = entry_in(expected, e.id);
    if (other != nullptr) {
      compare_entries(e, *other, text);
      continue;
    }
    text.out.count++;
    text.line(e.id + " was asked for " + card_name + " alone");
  }
  for (const Entry& e : expected.entries) {
    if (entry_in(card, e.id) != nullptr) continue;
    text.out.count++;
    text.line(e.id + " was asked for " + expected_name + " alone");
  }
  text.line(printed("%zu differences", text.out.count));
  return text.out;
}

}  // namespace kilim::exam
