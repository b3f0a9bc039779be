// SPDX-License-Identifier: BSD-3-Clause
// From the counts of the rules.
#include "vhca/lint/summary.hh"

#include <cstdint>

#include "kilim/prm/lint_rules.hh"
#include "vhca/lint/lint.hh"

namespace kilim::vhca::lint {

std::string summary_of(const Lint* lint) {
  std::string text;
  if (lint == nullptr) return text;
  for (const prm::lint::RuleRow& row : prm::lint::rule_rows) {
    const uint64_t n = lint->count(row.rule);
    if (n == 0) continue;
    text += std::string(row.name) + ": " + std::to_string(n) + ": " + row.sentence + "\n";
  }
  return text;
}

}  // namespace kilim::vhca::lint
