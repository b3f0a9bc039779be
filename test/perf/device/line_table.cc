// SPDX-License-Identifier: BSD-3-Clause
// The lines of the device that are counted: a new one is a file and a row here.
#include "perf/device/lines.hh"

namespace kilim::perf {
namespace {

constexpr const Line* table[] = {
    &device_frame_line, &device_spread_line, &scale_write_line, &scale_arm_line,
    &scale_key_line,    &scale_make_line,    &scale_size_line,  &scale_depth_line,
    &scale_turn_line,   &scale_idle_line,    &scale_list_line,  &scale_send_line,
    &scale_atomic_line, &wire_unix_line,     &wire_udp_line,    &wire_shm_line};

}  // namespace

std::span<const Line* const> device_lines() noexcept {
  return table;
}

}  // namespace kilim::perf
