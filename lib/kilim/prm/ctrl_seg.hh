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
// Completion modes: when a WQE gets an entry in its completion queue. The kernel names the upper
// two (MLX5_WQE_CTRL_CQ_UPDATE, ..._AND_EQE, include/linux/mlx5/qp.h), DPDK all four (enum
// mlx5_completion_mode, drivers/common/mlx5/mlx5_prm.h). SPDK's ECE: doc/decisions/0016.
inline constexpr uint8_t only_errors = 0 << 2;       // where it fails or is flushed
inline constexpr uint8_t only_first_error = 1 << 2;  // the same, unless one of the queue has before
inline constexpr uint8_t cq_update = 2 << 2;         // always
// always, and an event that nobody asked for
inline constexpr uint8_t cq_update_and_event = 3 << 2;
inline constexpr uint8_t completion_mask = 3 << 2;
// Fence modes: which WQEs before this one have to be complete. spdk_internal/mlx5.h, enum
// spdk_mlx5_wqe_ctrl_flags: small local ones (a UMR, a gather), `answer_fence` READs and atomics,
// strong all; `fence` is small and answers (Linux wr.c: MLX5_FENCE_MODE_SMALL_AND_FENCE).
inline constexpr uint8_t small_fence = 1 << 5;
inline constexpr uint8_t answer_fence = 2 << 5;
inline constexpr uint8_t strong_fence = 3 << 5;
inline constexpr uint8_t fence = 4 << 5;
inline constexpr uint8_t fence_mask = 7 << 5;
inline constexpr uint8_t reserved_in_fm_ce_se = 1 << 4 | 1 << 0;
inline constexpr uint32_t reserved_beside_ds = 3 << 6;  // between ds and the queue's number

constexpr uint8_t completion_mode(uint8_t fm_ce_se) noexcept {
  return fm_ce_se & completion_mask;
}
// Whether the WQE gets an entry when all went well.
constexpr bool completes(uint8_t fm_ce_se) noexcept {
  return (fm_ce_se & cq_update) != 0;
}
// The byte with another mode. The modes are numbers, not bits: two of them or'ed are a third.
constexpr uint8_t with_mode(uint8_t fm_ce_se, uint8_t mode) noexcept {
  return static_cast<uint8_t>((fm_ce_se & ~unsigned{completion_mask}) | mode);
}
constexpr uint8_t fence_of(uint8_t fm_ce_se) noexcept {
  return static_cast<uint8_t>(fm_ce_se & fence_mask);
}
// Whether a fence waits for keys that are being changed.
constexpr bool waits_for_local(uint8_t mode) noexcept {
  return mode == small_fence || mode == strong_fence || mode == fence;
}
// For READs and atomics, whose answers are written late.
constexpr bool waits_for_answers(uint8_t mode) noexcept {
  return mode == answer_fence || mode == strong_fence || mode == fence;
}
// For WRITEs and SENDs too, which may have to go out again.
constexpr bool waits_for_all(uint8_t mode) noexcept {
  return mode == strong_fence;
}
// The mode that waits for what either does.
constexpr uint8_t merged_fence(uint8_t a, uint8_t b) noexcept {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  return waits_for_all(a) || waits_for_all(b) ? strong_fence : fence;
}
// fm_ce_se with that fence beside its own.
constexpr uint8_t with_fence(uint8_t fm_ce_se, uint8_t mode) noexcept {
  const auto rest = static_cast<uint8_t>(fm_ce_se & ~fence_mask);
  return static_cast<uint8_t>(rest | merged_fence(fence_of(fm_ce_se), mode));
}
}  // namespace ctrl

inline constexpr uint32_t max_ds = 63;

}  // namespace kilim::prm
