// SPDX-License-Identifier: BSD-3-Clause
// The cases of test program ethdev_ut that lie in its other sources. Test only.
#pragma once

#include <span>

#include "ut.hh"

namespace kilim::test {

extern const std::span<const Case> ethdev_runs;  // interrupts, devargs, native port

}  // namespace kilim::test
