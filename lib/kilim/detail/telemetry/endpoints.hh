// SPDX-License-Identifier: BSD-3-Clause
// The commands /kilim/... of EAL's telemetry socket: what this process's ports, workers, pools,
// keys and devices are and have counted (doc/guides/telemetry.md). They are there in every program
// that has the driver net_kilim or calls offer(); nothing has to be told to them, as the rooms
// themselves list what there is. EAL's threads answer, while workers forward: they read counters,
// flags, and what is under a lock that no burst takes.
#pragma once

#include <cstddef>
#include <span>

namespace kilim::inline v1::telemetry {

struct Endpoint {
  const char* path;
  const char* help;
};
// In the order of the guide.
std::span<const Endpoint> endpoints() noexcept;

// Registers the commands with EAL, once; the driver net_kilim does so before EAL starts. Control
// thread.
void offer() noexcept;

// Off: each command answers that the program has switched it off; on from the beginning. EAL's
// --no-telemetry opens no socket at all. Any thread.
void set_enabled(bool on) noexcept;
[[nodiscard]] bool enabled() noexcept;

}  // namespace kilim::inline v1::telemetry
