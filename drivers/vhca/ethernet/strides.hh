// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Striding RQ". Many frames share a receive WQE: each takes as many of its strides as it
// needs, in order. Adapter's lock held. Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vhca/ethernet/state.hh"
#include "vhca/wq/qp.hh"
#include "vhca/wq/recv.hh"

namespace kilim::vhca::ethernet {

// Strides that a frame takes, the two bytes in front of it included where the queue wants them.
inline uint32_t strides_of(const wq::RecvRing& ring, std::size_t bytes) noexcept {
  const std::size_t whole = bytes + (ring.two_bytes ? 2 : 0);
  return static_cast<uint32_t>((whole + (std::size_t{1} << ring.log_stride) - 1) >>
                               ring.log_stride);
}

// Whether it would have to begin on the next WQE.
inline bool needs_next(const wq::RecvRing& ring, std::size_t bytes) noexcept {
  return ring.striding() && ring.used != 0 && ring.used + strides_of(ring, bytes) > ring.strides();
}

// As peek_recv(), of the WQE that has room for so many bytes: what is left of the one before is
// given back by an entry without data. `wqe` is what is left of that one.
wq::RecvTake peek_for(EthState&, wq::Qp&, std::size_t bytes, wq::RecvWqe& wqe) noexcept;

// A frame lies in the WQE: it is used up with its last stride. What the entry says of the place.
struct StridePlace {
  uint16_t first = 0;
  uint32_t byte_cnt = 0;
};
StridePlace take_strides(EthState&, wq::Qp&, std::size_t bytes) noexcept;

}  // namespace kilim::vhca::ethernet
