// SPDX-License-Identifier: BSD-3-Clause
// The live view of --screen: a page of 24 lines of 80 columns. Main lcore; pure but for draw().
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rates.hh"
#include "stats.hh"

namespace kilim::testpmd {

inline constexpr std::size_t screen_columns = 80, screen_lines = 24;

struct ScreenLook {
  bool colour = false;  // of the terminal
  bool utf8 = false;    // block characters for the picture of the last minute
};
// Reads the look from the environment: TERM, NO_COLOR, LANG.
ScreenLook screen_look();

// At most screen_lines lines; without the codes of colour each is at most screen_columns wide.
std::vector<std::string> screen_of(const Report& r, const Rates& rates, const ScreenLook& look);

// Over the page before; the first one clears the terminal.
void draw_screen(const std::vector<std::string>& lines, bool first);

// "12.3 M", "980 k", "17": at most six characters.
std::string short_number(double n);

}  // namespace kilim::testpmd
