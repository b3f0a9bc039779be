// SPDX-License-Identifier: BSD-3-Clause
// The commands /kilim/... of EAL's telemetry socket: ports, workers, pools, keys and devices of
// this process, and what they have counted. They are there in every program that has the driver
// net_kilim or calls telemetry::offer(); nothing has to be told to them.
//
// Threads: offer() is the control thread's, set_enabled() any thread's; EAL's own threads answer
// while workers forward.
//
// Errors: none; a command that cannot be carried out answers with "error" and a sentence.
//
// Example:
//   #include <cstdio>
//   int main() {
//     kilim::telemetry::offer();
//     for (const kilim::telemetry::Endpoint& e : kilim::telemetry::endpoints())
//       std::printf("%s: %s\n", e.path, e.help);
//   }
#pragma once

#include "kilim/detail/telemetry/endpoints.hh"
