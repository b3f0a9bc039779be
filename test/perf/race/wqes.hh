// SPDX-License-Identifier: BSD-3-Clause
// What two drivers write for the same packets: random mbufs go through net_kilim's transmit burst
// and net_mlx5's, one at a time; each WQE passes the linter, and both must mean the same frame.
// Where they say it otherwise has a name, and doc/decisions/0057 says why. One thread.
#pragma once

#include <cstdint>
#include <string>

namespace kilim::race {

// Compares the WQEs of packets with several mbufs and TSO (`number` 1), with tags (2), or with all
// of it (3), with checksums each. Prints how many packets each difference met; returns an empty
// string, or the first fault.
std::string compare_wqes(uint32_t packets, uint32_t number);

}  // namespace kilim::race
