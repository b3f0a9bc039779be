// SPDX-License-Identifier: BSD-3-Clause
// For tests of doc/guides/errors.md: its text, and texts without the numbers that differ from run
// to run. Owner: one test case.
#pragma once

#include <cctype>
#include <cstdio>
#include <string>

namespace kilim::vhca::test {

inline std::string read_guide() {
  std::string text;
  if (FILE* file = std::fopen(KILIM_ERRORS_GUIDE, "r")) {
    char part[4096];
    for (std::size_t n = 0; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
    std::fclose(file);
  }
  return text;
}

// Each number, hex or decimal, becomes '#', and white space one blank.
inline std::string without_numbers(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); i++) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool begins = std::isdigit(c) != 0 && (i == 0 || std::isalnum(text[i - 1]) == 0);
    if (begins) {
      out += '#';
      while (i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i + 1])) != 0) i++;
    } else if (std::isspace(c) == 0) {
      out += text[i];
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace kilim::vhca::test
