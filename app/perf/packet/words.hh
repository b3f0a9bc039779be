// SPDX-License-Identifier: BSD-3-Clause
// Lines of packets that line_packet.cc has from other sources.
#pragma once

#include <span>

#include "perf/compare/line.hh"

namespace kilim::perf {

// Lines of packets that ask the device for something; for processors with AVX2.
std::span<const Line> word_lines() noexcept;
// Lines of packets that are received in another form.
std::span<const Line> form_lines() noexcept;

}  // namespace kilim::perf
