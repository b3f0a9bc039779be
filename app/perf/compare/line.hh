// SPDX-License-Identifier: BSD-3-Clause
// A line of the comparison: one piece of work, done by Kilim and by libmlx5's interfaces, with
// goals for time and instructions. A new line is a file and a row in line_table.cc, which
// kilim-perf compare and the callgrind suite read. Plain values; Work runs on one thread and is
// what is measured.
#pragma once

#include <cstdint>
#include <span>

#include "perf/compare/rig.hh"

namespace kilim::perf {

// A size that a line is measured for; its ratio is the geometric mean over all sizes.
struct Case {
  const char* name;
  uint32_t pieces;
};

// Memory for the completions of a round.
inline std::array<queue::Completion, round_requests> completions;

// Runs a round; returns how many times the work was done. Never inlined into the caller.
using Work = uint32_t (*)(Rig&, const Case&);

struct Side {
  const char* name;
  Work work;
  // Called before each round, not measured: prepares the queues.
  Work prepare = nullptr;
  // The second half of the work, also measured; the device runs in between, not measured.
  Work second = nullptr;
};

struct Line {
  const char* metric;
  double time_goal;         // Kilim's time over that of libmlx5's fastest interface; 0: no goal
  double instruction_goal;  // likewise, over the fewest instructions; 0: no goal
  std::span<const Case> cases;
  Side kilim;
  std::span<const Side> peers;
  bool executing = false;        // the device executes requests; false: it only completes them
  double most_instructions = 0;  // of one piece of work on Kilim's side, in any case; 0: no goal
};

std::span<const Line* const> lines() noexcept;
// The lines of test packet, whose peer is the floor loop; without AVX2 there are fewer.
std::span<const Line> packet_lines() noexcept;

extern const Line umr_single_line, umr_batch_line, umr_wide_single_line, umr_wide_batch_line,
    patch_line, raw_patch_line, write_line, completion_line, empty_poll_line, device_write_line,
    device_copy_line, gather_line, gather_device_line, gather_floor_line, lookup_arena_line,
    lookup_elsewhere_line, inline_line, pool_line;

}  // namespace kilim::perf
