// SPDX-License-Identifier: BSD-3-Clause
// How mode split sends: what the command line asks, and the plan that the chooser makes of it for
// a port. Main lcore, before the ports start.
#pragma once

#include <cstdint>
#include <string>

#include "kilim/chooser.hh"
#include "kilim/device.hh"
#include "kilim/result.hh"

namespace kilim::testpmd {

struct SplitOptions {
  uint32_t header_bytes = 64;
  // Ways among which the chooser decides: without copies unless they are asked for.
  chooser::WayMask ways =
      chooser::mask_of(chooser::Way::gather_list) | chooser::mask_of(chooser::Way::inline_key);
  chooser::Way forced = chooser::Way::none;  // taken wherever it can be
};

// A word of --split-way; false: there is no such.
bool parse_split_way(SplitOptions& o, const std::string& word);

// Measures the device's costs and decides for payloads up to `longest` bytes in buffers of
// `stride`.
Result<chooser::PacketPlan> plan_split(device::Device& device, const SplitOptions& o,
                                       uint32_t stride, uint32_t longest);

}  // namespace kilim::testpmd
