// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Receive Work Queue". One receive WQE in host order, as it was read off its ring. A value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "vhca/tpt/transfer.hh"

namespace kilim::vhca::wq {

inline constexpr std::size_t max_recv_segments = 32;  // 512 bytes, the longest receive WQE

struct RecvWqe {
  uint16_t index = 0;  // of its completion
  uint32_t count = 0;  // segments
  uint64_t room = 0;   // bytes they hold together
  std::array<tpt::Segment, max_recv_segments> segments;
};

}  // namespace kilim::vhca::wq
