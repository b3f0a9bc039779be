// SPDX-License-Identifier: BSD-3-Clause
// Holds a side to what the Nic delivered: random packets go through its receive burst, and each
// field that the application gets is compared; then all sides' sends of one setting are compared as
// the device reads them. One thread, outside of what is measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/race/racers.hh"

namespace kilim::race {

// `packets` of random lengths, types, checksums and hashes (some without), one by one and in blocks
// of 2 to 64, received in bursts of random sizes; where errors do not stop the side's queue some
// receives fail. Returns an empty string, or the first fault.
std::string check_fields(const Racer& r, const Setting& s, uint32_t packets);

// Some bursts of each side ask the device for the same. Returns an empty string, or who does not.
std::string check_sends(const std::vector<Racer>& racers, const Setting& s);

// The device's work before a burst: completes, then receives a burst in the setting's form. Returns
// the packets.
uint32_t turn(Nic& nic, const Setting& s) noexcept;

}  // namespace kilim::race
