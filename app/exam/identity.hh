// SPDX-License-Identifier: BSD-3-Clause
// A child process asks first who the device is, and which bytes of that name the machine. It reads
// the device and its files of sysfs, and changes nothing.
#pragma once

#include "question.hh"

namespace kilim::exam {

void identify(const Setting& setting, Answer& answer);

}  // namespace kilim::exam
