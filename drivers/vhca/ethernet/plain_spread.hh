// SPDX-License-Identifier: BSD-3-Clause
// Frames of one shape (describe.hh) that a hash spreads over queues, four at a time: shape, sums
// and hashes of four are looked at together, then each goes into the next receive WQE of its queue,
// with what is the same in the completions of all made once. Owner: one row of frames; adapter's
// lock held. Never allocates. Frames and WQEs are untrusted.
#pragma once

#include <cstddef>

#include "vhca/ethernet/describe.hh"
#include "vhca/ethernet/four_frames.hh"
#include "vhca/ethernet/plain_taking.hh"
#include "vhca/ethernet/tir.hh"
#include "vhca/wire/frame_ring.hh"

namespace kilim::vhca::ethernet {

// Frames that come: what they are like, and whose hash spreads them.
struct SpreadFrames {
  const SameShape& shape;
  const CoveredWords& covered;  // of that shape, which is one of those that it knows
  const Tir& tir;
};

// At most `budget` frames from the front of the ring, which it takes out there. How many: it ends
// in front of four of which one is not of the shape or has a wrong sum, and behind the last one
// that was plain. One to three that are left go with those in front of them, looked at again.
std::size_t take_spread(wire::FrameRing::Reader&, Row&, const SpreadFrames&,
                        std::size_t budget) noexcept;

}  // namespace kilim::vhca::ethernet
