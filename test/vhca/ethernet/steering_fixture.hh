// SPDX-License-Identifier: BSD-3-Clause
// For tests of steering: queues that are only addresses, and whether a frame goes to them.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <vector>

#include "../wire/frames_fixture.hh"
#include "ut.hh"
#include "vhca/ethernet/steering.hh"
#include "vhca/wq/qp.hh"

namespace kilim::test {

using vhca::FlowSpec;
using vhca::ethernet::Steering;
using vhca::wq::Qp;

inline Qp a, b, c;

// Whether exactly these queues get the frame.
inline bool goes_to(Steering& s, const Bytes& f, std::initializer_list<Qp*> want) {
  std::vector<Qp*> got;
  for (const vhca::ethernet::FlowTarget& t : s.match(f)) got.push_back(t.qp);
  return got.size() == want.size() && std::is_permutation(got.begin(), got.end(), want.begin());
}

// Cases of odd_frames.cc, steering_headers.cc, soft_steering.cc, kernel_rule.cc,
// steering_limits.cc.
std::span<const kilim::test::Case> odd_frame_cases();
std::span<const kilim::test::Case> steering_header_cases();
std::span<const kilim::test::Case> soft_steering_cases();
std::span<const kilim::test::Case> kernel_rule_cases();
std::span<const kilim::test::Case> steering_limit_cases();

}  // namespace kilim::test
