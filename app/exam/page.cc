// SPDX-License-Identifier: BSD-3-Clause
// The page for people, as text and as HTML. All that comes from a device is escaped.
#include <string>

#include "question.hh"
#include "report.hh"

namespace kilim::exam {
namespace {

constexpr std::size_t most_shown = 200;

std::string escaped(std::string_view text) {
  std::string s;
  for (const char c : text) {
    switch (c) {
      case '<':
        s += "&lt;";
        break;
      case '>':
        s += "&gt;";
        break;
      case '&':
        s += "&amp;";
        break;
      case '"':
        s += "&quot;";
        break;
      default:
        s += c;
    }
  }
  return s;
}

std::string shown(const std::string& value) {
  return value.size() <= most_shown
             ? value
             : value.substr(0, most_shown) + printed("... (%zu characters)", value.size());
}

const char* meaning(const Entry& e) {
  const Question* q = find_question(e.id);
  const char* means = q == nullptr ? nullptr : meaning_of(*q, e.verdict);
  return means == nullptr ? "" : means;
}

std::string rows_of(const std::vector<Pair>& pairs, const char* style) {
  std::string s;
  for (const Pair& p : pairs)
    s += printed("<tr class=%s><td>", style) + escaped(p.name) + "<td><code>" +
         escaped(shown(p.value)) + "</code>\n";
  return s;
}

}  // namespace

std::string text_of(const Report& report) {
  std::string s;
  for (const Pair& p : report.device) s += p.name + ": " + p.value + "\n";
  for (const Entry& e : report.entries) {
    std::string left = e.id;
    left.resize(5, ' ');
    s += left + e.title + "\n     " + e.verdict + (e.why.empty() ? "" : ": " + e.why) + "\n";
    if (*meaning(e) != '\0') s += std::string("     for Kilim: ") + meaning(e) + "\n";
  }
  return s;
}

std::string html_of(const Report& report) {
  std::string s =
      "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><title>kilim-exam</title>\n<style>"
      "body{font:15px sans-serif;max-width:60em;margin:2em auto}td{padding:0 1em 0 0;"
      "vertical-align:top}code{word-break:break-all}.measured{color:#777}h2{font-size:1.1em}"
      "</style>\n<h1>kilim-exam</h1>\n<table>\n";
  s += rows_of(report.device, "fact") + rows_of(report.host, "measured") + "</table>\n";
  for (const Entry& e : report.entries) {
    s += "<h2 id=" + escaped(e.id) + ">" + escaped(e.id) + " " + escaped(e.title) +
         "</h2>\n<p><b>" + escaped(e.verdict) + "</b> " + escaped(e.why) + "\n";
    if (*meaning(e) != '\0') s += "<p>For Kilim: " + escaped(meaning(e)) + "\n";
    s += "<details><summary>" + printed("%zu facts", e.facts.size()) + "</summary><table>\n" +
         rows_of(e.facts, "fact") + rows_of(e.measured, "measured") + "</table></details>\n";
  }
  return s + "</html>\n";
}

}  // namespace kilim::exam
