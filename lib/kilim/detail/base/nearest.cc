// SPDX-License-Identifier: BSD-3-Clause
// Damerau-Levenshtein distance by its table (optimal string alignment), of which three rows are
// kept: the present one, the last one, and the one before for swaps.
#include "kilim/detail/base/nearest.hh"

#include <algorithm>
#include <utility>
#include <vector>

namespace kilim::inline v1 {

unsigned word_distance(std::string_view a, std::string_view b) {
  std::vector<unsigned> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (unsigned j = 0; j <= b.size(); j++) row[j] = j;
  for (unsigned i = 1; i <= a.size(); i++) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); j++) {
      const unsigned replaced = last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known) {
  constexpr std::size_t longest = 64;  // bounds the time; no known word is nearly as long
  if (word.size() > longest) return {};
  std::string_view best;
  unsigned least = 0;
  for (std::string_view k : known) {
    const unsigned distance = word_distance(word, k);
    if (distance > std::max<std::size_t>(1, k.size() / 3)) continue;
    if (!best.empty() && distance >= least) continue;
    best = k;
    least = distance;
  }
  return best;
}

std::string nearest_hint(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view near = nearest_word(word, known);
  return near.empty() ? "" : " (is '" + std::string(near) + "' meant?)";
}

}  // namespace kilim::inline v1
