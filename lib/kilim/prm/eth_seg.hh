// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Ethernet Segment". Behind the control segment of every WQE of a raw packet send queue.
// Pure format, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/be.hh"

namespace kilim::prm {

struct EthSeg {
  be32 rsvd0;
  uint8_t cs_flags;
  uint8_t rsvd1;
  be16 mss;
  be32 rsvd2;
  be16 inline_hdr_sz;  // bytes of the frame's start that are in the WQE, 0 where the device allows
                       // none
  uint8_t inline_hdr_start[2];  // the first two of them; the rest follows behind the segment
};
static_assert(sizeof(EthSeg) == 16 && offsetof(EthSeg, inline_hdr_sz) == 12 &&
              offsetof(EthSeg, inline_hdr_start) == 14);

namespace eth {
inline constexpr uint8_t l3_csum = 1 << 6;
inline constexpr uint8_t l4_csum = 1 << 7;
}  // namespace eth

}  // namespace kilim::prm
