// SPDX-License-Identifier: BSD-3-Clause
// Who the device is, and all of it that names the machine: asked first, in a child process. Reads
// the device and its files of sysfs; changes nothing.
#pragma once

#include "question.hh"

namespace kilim::exam {

void identify(const Setting& setting, Answer& answer);

}  // namespace kilim::exam
