// SPDX-License-Identifier: BSD-3-Clause
// Measures the sides of a line alternately: time as the least of many samples, instructions by the
// processor's counter if there is one. One thread; allocates only before it measures.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "perf/compare/line.hh"

namespace kilim::perf {

inline constexpr uint32_t least_samples = 9;
inline constexpr double sample_ms = 2;

struct Cost {
  double ns = 0;                       // of one piece of work, the least of all samples
  std::optional<double> instructions;  // of one piece of work
};

struct LineResult {
  const Line* line = nullptr;
  // Geometric means over the cases: Kilim, libmlx5's fastest interface, its interface with the
  // fewest instructions.
  double kilim_ns = 0, peer_ns = 0;
  std::optional<double> instructions_ratio;
  std::string peer;  // the fastest interface in the last case
  double away = 0;   // share of the time in which others had this thread's core

  [[nodiscard]] bool has_goal() const noexcept { return line->time_goal != 0; }
  // Not a number without one, which JSON shows as null.
  [[nodiscard]] double goal() const noexcept {
    return has_goal() ? line->time_goal : std::numeric_limits<double>::quiet_NaN();
  }

  [[nodiscard]] double ratio() const noexcept { return kilim_ns / peer_ns; }
  [[nodiscard]] bool met() const noexcept { return !has_goal() || ratio() <= line->time_goal; }
};

// What is said of a line's goal: "-" without one, "met", or "MISSED", with how long others had the
// core where that was a twentieth of the time or more.
std::string verdict(const LineResult&);
// "0.62", or "-" without one.
std::string goal_text(const LineResult&);

// Nanoseconds per tick of the processor's TSC.
double ns_per_tick() noexcept;

// Nullopt: a request failed. Switches the device as the line says, and back to executing.
std::optional<LineResult> measure_line(Rig&, const Line&, uint32_t samples);

}  // namespace kilim::perf
