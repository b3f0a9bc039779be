// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Control Segment". The first 16 bytes of every send WQE.
// Pure format, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/be.hh"
#include "kilim/base/field.hh"

namespace kilim::prm {

struct CtrlSeg {
  be32 opmod_idx_opcode;
  be32 qpn_ds;
  uint8_t signature;
  uint8_t dci_stream_channel_id[2];
  uint8_t fm_ce_se;
  be32 imm;  // immediate data as is; the key of a UMR, of an invalidation
};
static_assert(sizeof(CtrlSeg) == 16 && offsetof(CtrlSeg, fm_ce_se) == 11 &&
              offsetof(CtrlSeg, imm) == 12);

namespace ctrl {
using opmod = Field<&CtrlSeg::opmod_idx_opcode, 31, 24>;
using wqe_index = Field<&CtrlSeg::opmod_idx_opcode, 23, 8>;
using opcode = Field<&CtrlSeg::opmod_idx_opcode, 7, 0>;
using qpn = Field<&CtrlSeg::qpn_ds, 31, 8>;
using ds = Field<&CtrlSeg::qpn_ds, 5, 0>;  // octowords of this WQE, 1..63

// The stream of a dynamically connected queue that the WQE belongs to.
constexpr uint16_t stream_of(const CtrlSeg& s) noexcept {
  return static_cast<uint16_t>(s.dci_stream_channel_id[0] << 8 | s.dci_stream_channel_id[1]);
}

// fm_ce_se, the byte of fence mode, completion mode and solicited event.
inline constexpr uint8_t solicited = 1 << 1;
inline constexpr uint8_t cq_update = 2 << 2;
inline constexpr uint8_t small_fence = 1 << 5;
inline constexpr uint8_t strong_fence = 3 << 5;
inline constexpr uint8_t fence = 4 << 5;  // waits for outstanding reads and atomics
inline constexpr uint8_t fence_mask = 7 << 5;
inline constexpr uint8_t completion_mask =
    3 << 2;  // 0: CQE on error only (or always, by the queue), 2: always
}  // namespace ctrl

inline constexpr uint32_t max_ds = 63;

}  // namespace kilim::prm
