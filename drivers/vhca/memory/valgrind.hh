// SPDX-License-Identifier: BSD-3-Clause
// Whether Valgrind runs this process. It runs one thread at a time: one of ours that a blocked
// client thread waits for would never come to run. Any thread; no system call.
#pragma once

namespace kilim::vhca::memory {

bool under_valgrind() noexcept;

}  // namespace kilim::vhca::memory
