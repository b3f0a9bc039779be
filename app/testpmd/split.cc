// SPDX-License-Identifier: BSD-3-Clause
#include "split.hh"

#include <algorithm>

#include "kilim/chooser.hh"
#include "kilim/port.hh"

namespace kilim::testpmd {

using chooser::Way;

bool parse_split_way(SplitOptions& o, const std::string& word) {
  constexpr chooser::WayMask in_place = mask_of(Way::gather_list) | mask_of(Way::inline_key);
  constexpr struct {
    const char* name;
    chooser::WayMask ways;
    Way forced;
  } rows[] = {{"in-place", in_place, Way::none},
              {"cheapest", chooser::all_ways, Way::none},
              {"copy", chooser::all_ways, Way::copy},
              {"list", in_place, Way::gather_list},
              {"key", in_place, Way::inline_key}};
  for (const auto& r : rows) {
    if (word != r.name) continue;
    o.ways = r.ways;
    o.forced = r.forced;
    return true;
  }
  return false;
}

// A transmit burst takes fewer pieces than the device.
Result<chooser::PacketPlan> plan_split(device::Device& device, const SplitOptions& o,
                                       uint32_t stride, uint32_t longest) {
  auto measured = port::calibrate_chooser(device);
  if (!measured) return measured.error();
  chooser::ChooserLimits limits = measured->limits();
  limits.list_pieces = std::min(limits.list_pieces, burst::max_rx_segments);
  limits.inline_pieces = std::min(limits.inline_pieces, burst::max_rx_segments);
  chooser::Chooser chooser{limits, measured->costs()};
  chooser.force(o.forced);
  return chooser::PacketPlan{chooser,
                             {.buffer_bytes = stride,
                              .longest = longest - o.header_bytes,
                              .copy_room = stride - o.header_bytes,
                              .ways = o.ways}};
}

}  // namespace kilim::testpmd
