// SPDX-License-Identifier: BSD-3-Clause
// What the linter has found, as a text. Control path, adapter's lock held; allocates.
#pragma once

#include <string>

namespace kilim::vhca::lint {

class Lint;

// A line for each rule that was broken: its name, how many times, a sentence. Null: it is off.
std::string summary_of(const Lint* lint);

}  // namespace kilim::vhca::lint
