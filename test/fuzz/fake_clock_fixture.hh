// SPDX-License-Identifier: BSD-3-Clause
// The adapter's clock under a harness: it stands still unless told to go on, so that an input does
// the same each time. Only the monotonic clock, which the fuzzer itself does not read.
#pragma once

#include <cstdint>

namespace kilim::fuzz {

void reset_clock() noexcept;
void pass_time(uint64_t ns) noexcept;

}  // namespace kilim::fuzz
