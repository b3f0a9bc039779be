// SPDX-License-Identifier: BSD-3-Clause
// A recording in memory, and what posts it again. Values; one thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kilim/detail/base/units.hh"
#include "kilim/diagnosis.hh"
#include "kilim/prm/lint.hh"

namespace kilim::app {

struct Doorbell {
  diag::DoorbellRecord record;
  std::vector<std::byte> blocks;
};

inline prm::lint::QueueKind kind_of(const Doorbell& d) {
  return d.record.kind < prm::lint::queue_kinds ? static_cast<prm::lint::QueueKind>(d.record.kind)
                                                : prm::lint::QueueKind::connected;
}

// Calls f(bytes) for each WQE of a doorbell; the blocks that are left where ds is nonsense.
template <typename F>
void each_wqe(const Doorbell& d, F f) {
  std::span<const std::byte> left = d.blocks;
  while (left.size() >= wqebb_bytes) {
    const auto c = prm::lint::segment_at<prm::CtrlSeg>(left, 0);
    const uint32_t ds = prm::ctrl::ds::get(c);
    const std::size_t blocks = wqebbs_for(Octowords{ds}).value();
    const bool sound = ds != 0 && blocks * wqebb_bytes <= left.size();
    f(sound ? left.first(std::size_t{ds} * octoword_bytes) : left);
    if (!sound) return;
    left = left.subspan(blocks * wqebb_bytes);
  }
}

// Posts every doorbell on reliable connections of a virtual device of its own, under the linter.
// What leads a request of another kind of queue to its peer is left out. Keys become keys of that
// device; memory is as much as the recording names, of zeroes. Prints each completion and returns 0
// where nothing failed, 1 where something did, 2 where it cannot be done.
int replay(const std::vector<Doorbell>&);

}  // namespace kilim::app
