// SPDX-License-Identifier: BSD-3-Clause
// A steering rule as comparisons that a kernel's packet filter makes too (wire/frame_match.hh).
// Pure function, control path.
#pragma once

#include <vector>

#include "vhca/core/spec.hh"
#include "vhca/wire/frame_match.hh"

namespace kilim::vhca::ethernet {

struct KernelRule {
  // A frame that one of them is true of matches the rule. Of frames with two tags, which a kernel
  // sees from the second one on, they may know nothing.
  std::vector<wire::FrameMatch> matches;
  const char* why = nullptr;  // the rule cannot be said so; static
};

KernelRule kernel_rule_of(const FlowSpec&);

}  // namespace kilim::vhca::ethernet
