// SPDX-License-Identifier: BSD-3-Clause
// What the virtual device costs, as lines of the comparison: a frame, a request beside many
// objects, a wire. The callgrind suite counts all of device_lines(); the program `scale` times
// them. Plain values; one thread.
#pragma once

#include <span>

#include "perf/compare/line.hh"

namespace kilim::perf {

std::span<const Line* const> device_lines() noexcept;

extern const Line device_frame_line, device_spread_line, scale_write_line, scale_arm_line,
    scale_key_line, scale_make_line, scale_size_line, scale_depth_line, scale_turn_line,
    scale_idle_line, scale_list_line, scale_copy_line, scale_send_line, scale_atomic_line,
    wire_unix_line, wire_udp_line, wire_shm_line;

}  // namespace kilim::perf
