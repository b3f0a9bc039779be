// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Control Segment". The first 16 bytes of every send WQE, and the rules of its fence and
// completion modes. Names: mlx5_wqe_ctrl_seg of mlx5dv.h. Pure format, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/field.hh"

namespace kilim::inline v1::prm {

struct CtrlSeg {
  be32 opmod_idx_opcode;  // 31:24 opcode modifier, 23:8 index of the WQE's first block, 7:0 opcode
  be32 qpn_ds;            // 31:8 QPN, 5:0 octowords of the WQE
  uint8_t signature;      // for queue pairs made with WQE signatures, else 0
  uint8_t dci_stream_channel_id[2];
  uint8_t fm_ce_se;  // 7:5 fence mode, 3:2 completion mode, 1 solicited event
  be32 imm;          // immediate data in big endian, or the key of a UMR or an invalidation
};
static_assert(sizeof(CtrlSeg) == 16 && offsetof(CtrlSeg, fm_ce_se) == 11 &&
              offsetof(CtrlSeg, imm) == 12);

namespace ctrl {
using opmod = Field<&CtrlSeg::opmod_idx_opcode, 31, 24>;
using wqe_index = Field<&CtrlSeg::opmod_idx_opcode, 23, 8>;
using opcode = Field<&CtrlSeg::opmod_idx_opcode, 7, 0>;
using qpn = Field<&CtrlSeg::qpn_ds, 31, 8>;
using ds = Field<&CtrlSeg::qpn_ds, 5, 0>;  // octowords of this WQE, 1..63

// The stream of a DC initiator that the WQE belongs to. Two bytes, as they begin at an odd offset.
constexpr uint16_t stream_of(const CtrlSeg& s) noexcept {
  return static_cast<uint16_t>(s.dci_stream_channel_id[0] << 8 | s.dci_stream_channel_id[1]);
}

// Bits of fm_ce_se.
inline constexpr uint8_t solicited = 1 << 1;  // the peer's completion raises a solicited event
// Completion modes: when a WQE gets a CQE. The kernel names the upper two (MLX5_WQE_CTRL_CQ_UPDATE,
// ..._AND_EQE, include/linux/mlx5/qp.h), DPDK all four (enum mlx5_completion_mode,
// drivers/common/mlx5/mlx5_prm.h). SPDK's ECE: doc/decisions/0016.
inline constexpr uint8_t only_errors = 0 << 2;       // if it fails or is flushed
inline constexpr uint8_t only_first_error = 1 << 2;  // if it is the queue's first that fails
inline constexpr uint8_t cq_update = 2 << 2;         // always
// Always, and an event even though the completion queue is not armed.
inline constexpr uint8_t cq_update_and_event = 3 << 2;
inline constexpr uint8_t completion_mask = 3 << 2;
// Fence modes: which earlier WQEs of the queue are complete before this one starts. small: local
// ones (UMR, gather); answer: READs and atomics; strong: all; `fence`: small and answer together.
// spdk_internal/mlx5.h, enum spdk_mlx5_wqe_ctrl_flags; Linux wr.c, MLX5_FENCE_MODE_SMALL_AND_FENCE.
inline constexpr uint8_t small_fence = 1 << 5;
inline constexpr uint8_t answer_fence = 2 << 5;
inline constexpr uint8_t strong_fence = 3 << 5;
inline constexpr uint8_t fence = 4 << 5;
inline constexpr uint8_t fence_mask = 7 << 5;
inline constexpr uint8_t reserved_in_fm_ce_se = 1 << 4 | 1 << 0;
inline constexpr uint32_t reserved_beside_ds = 3 << 6;  // of qpn_ds, between ds and QPN

constexpr uint8_t completion_mode(uint8_t fm_ce_se) noexcept {
  return fm_ce_se & completion_mask;
}
// True: the WQE gets a CQE also if it succeeds.
constexpr bool completes(uint8_t fm_ce_se) noexcept {
  return (fm_ce_se & cq_update) != 0;
}
// fm_ce_se with completion mode `mode` instead of its own. The modes are numbers, not bits: two of
// them or'ed are a third one.
constexpr uint8_t with_mode(uint8_t fm_ce_se, uint8_t mode) noexcept {
  return static_cast<uint8_t>((fm_ce_se & ~unsigned{completion_mask}) | mode);
}
constexpr uint8_t fence_of(uint8_t fm_ce_se) noexcept {
  return static_cast<uint8_t>(fm_ce_se & fence_mask);
}
// True: the fence mode waits for UMRs, and so for mkeys that are being changed.
constexpr bool waits_for_local(uint8_t mode) noexcept {
  return mode == small_fence || mode == strong_fence || mode == fence;
}
// True: it waits for READs and atomics, whose responses are written to memory late.
constexpr bool waits_for_answers(uint8_t mode) noexcept {
  return mode == answer_fence || mode == strong_fence || mode == fence;
}
// True: it waits for WRITEs and SENDs too, which may be sent again and then read their memory
// again.
constexpr bool waits_for_all(uint8_t mode) noexcept {
  return mode == strong_fence;
}
// The weakest mode that waits for everything that `a` or `b` waits for.
constexpr uint8_t merged_fence(uint8_t a, uint8_t b) noexcept {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  return waits_for_all(a) || waits_for_all(b) ? strong_fence : fence;
}
// fm_ce_se with its own fence merged with `mode`.
constexpr uint8_t with_fence(uint8_t fm_ce_se, uint8_t mode) noexcept {
  const auto rest = static_cast<uint8_t>(fm_ce_se & ~fence_mask);
  return static_cast<uint8_t>(rest | merged_fence(fence_of(fm_ce_se), mode));
}
}  // namespace ctrl

inline constexpr uint32_t max_ds = 63;  // octowords of the longest WQE: ds has 6 bits

}  // namespace kilim::inline v1::prm
