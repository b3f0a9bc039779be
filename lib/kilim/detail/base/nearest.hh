// SPDX-License-Identifier: BSD-3-Clause
// Finds the known word nearest to a misspelt one, for error messages. Set-up only, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kilim::inline v1 {

// The least number of letters to insert, delete, replace or swap with their neighbour to get from
// `a` to `b` (Damerau-Levenshtein).
unsigned word_distance(std::string_view a, std::string_view b);

// The known word with the least distance, of several the first. Empty: all are further away than a
// third of their letters (and than one letter), or `word` is longer than 64 letters.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known);

// " (is 'X' meant?)" with the nearest word, to be put behind an error message; empty: there is
// none.
std::string nearest_hint(std::string_view word, std::span<const std::string_view> known);

}  // namespace kilim::inline v1
