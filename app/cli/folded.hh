// SPDX-License-Identifier: BSD-3-Clause
// Text for people in 80 columns: what is too much for a line goes on where its second column
// begins, in front of the line that goes on there itself. Pure, any thread; never cuts a word.
#pragma once

#include <string>
#include <string_view>

namespace kilim::cli {

// Lines that fit stay as they are, but for those that a longer one goes on in.
std::string folded(std::string_view text);

}  // namespace kilim::cli
