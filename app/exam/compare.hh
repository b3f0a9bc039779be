// SPDX-License-Identifier: BSD-3-Clause
// Lays a report beside another and says what each difference is for Kilim. Pure; measured fields
// are left aside.
#pragma once

#include <cstddef>
#include <string>

#include "report.hh"

namespace kilim::exam {

struct Differences {
  std::size_t count = 0;
  std::string text;  // one line a difference, and lines that are indented below it
};

// `names` are what the reports are called in the text.
Differences compare(const Report& card, const Report& expected, const std::string& card_name,
                    const std::string& expected_name);

}  // namespace kilim::exam
