// SPDX-License-Identifier: BSD-3-Clause
// The known word that a misspelt one is nearest to, for sentences that refuse it. Set-up only, any
// thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kilim {

// Letters to insert, leave out, replace or swap with their neighbour until `a` is `b`.
unsigned word_distance(std::string_view a, std::string_view b);

// Empty: none is near enough to be meant, a third of its letters being wrong.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known);

// " (is 'X' meant?)" where there is such a word, else nothing.
std::string nearest_hint(std::string_view word, std::span<const std::string_view> known);

}  // namespace kilim
