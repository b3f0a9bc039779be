// SPDX-License-Identifier: BSD-3-Clause
// Runs a question in a child process with a time limit: a child that hangs is killed, one that dies
// is told with its signal, and both are answers. The caller's thread waits; the process has no
// other threads and no open device, so that a fork copies neither.
#pragma once

#include <cstdint>

#include "question.hh"

namespace kilim::exam {

using Ask = void (*)(const Setting& setting, Answer& answer);

Found ask_in_child(Ask ask, const Setting& setting, double seconds);

}  // namespace kilim::exam
