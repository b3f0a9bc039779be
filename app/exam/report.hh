// SPDX-License-Identifier: BSD-3-Clause
// A report: what was found, as a value, written as JSON, read back, and as a page for people.
// A file that is read is untrusted: whatever is wrong with it is a sentence. Measured fields, which
// differ from run to run, stand apart from facts; the report names them. One thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "answer.hh"
#include "secrets.hh"

namespace kilim::exam {

inline constexpr int schema_version = 1;

struct Entry {
  std::string id, title;
  std::string verdict;  // a word of the question's table, or "not run", "hung", "died"
  std::string why;      // of the last three
  std::vector<Pair> facts, measured;
};

struct Report {
  std::string program;  // version
  bool anonymised = true;
  std::vector<Pair> device;  // the same in each run
  std::vector<Pair> host;    // measured
  std::vector<Entry> entries;
};

Entry entry_of(std::string_view id, std::string_view title, const Found& found);
// Takes what names the machine out of every value.
void anonymise(Report& report, const Secrets& secrets);

std::string json_of(const Report& report);
// The report, or a sentence without the file's name in front.
std::variant<Report, std::string> read_report(const std::string& path);
std::variant<Report, std::string> parse_report(std::string_view json);

// Columns of text; a page that needs no other file.
std::string text_of(const Report& report);
std::string html_of(const Report& report);

}  // namespace kilim::exam
