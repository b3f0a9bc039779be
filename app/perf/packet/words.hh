// SPDX-License-Identifier: BSD-3-Clause
// Lines of packets that ask the device for something. For processors with AVX2.
#pragma once

#include <span>

#include "perf/compare/line.hh"

namespace kilim::perf {

std::span<const Line> word_lines() noexcept;

}  // namespace kilim::perf
