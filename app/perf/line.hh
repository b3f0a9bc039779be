// SPDX-License-Identifier: BSD-3-Clause
// A line of the comparison: one piece of work, done by Kilim and in each of libmlx5's ways, with
// the goals for time and instructions. A line is a file of its own and a row in line_table.cc; both
// kilim-perf compare and the callgrind suite go through the table.
// Plain values; Work is called by one thread and is what is measured.
#pragma once

#include <cstdint>
#include <span>

#include "rig.hh"

namespace kilim::perf {

// The sizes that a line is done for; its ratio is the geometric mean over them.
struct Case {
  const char* name;
  uint32_t pieces;
};

// Room for completions of a round, and where their program reads them.
inline std::array<queue::Completion, round_requests> completions;

// One round: does the work, returns how many times it was done. Never inlined into the caller.
using Work = uint32_t (*)(Rig&, const Case&);

struct Side {
  const char* name;
  Work work;
  // Before each round, not measured: brings the queues to where the work begins.
  Work prepare = nullptr;
  // The second half of the work, measured too; the device runs between the halves and is not.
  Work second = nullptr;
};

struct Line {
  const char* metric;
  double time_goal;         // Kilim's share of libmlx5's fastest way; 0: none
  double instruction_goal;  // of the way with the fewest instructions; 0: none
  std::span<const Case> cases;
  Side kilim;
  std::span<const Side> peers;
  bool executing = false;  // the device does what is asked; else requests only complete
};

std::span<const Line* const> lines() noexcept;

extern const Line umr_single_line, umr_batch_line, patch_line, raw_patch_line, write_line,
    completion_line, empty_poll_line, device_write_line, device_copy_line, gather_line,
    gather_device_line, lookup_arena_line, lookup_elsewhere_line, inline_line;

}  // namespace kilim::perf
