// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Address Vector", "XRC Segment". The segments between the control segment and the data in
// send WQEs of UD, XRC and dynamically connected (DC) queue pairs; also the first segment of a
// shared receive WQE, and the GRH that a UD receive begins with. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/field.hh"

namespace kilim::inline v1::prm {

// The destination of one UD message or of one request of a DC initiator. For DC the first two words
// hold the 64-bit DC access key, and dqp the number of the DC target (mlx5_wqe_av of mlx5dv.h).
struct AvSeg {
  be32 qkey;  // bit 31: use the queue pair's own Q_Key
  be32 reserved;
  be32 dqp;              // 31 extended: the segment has all 48 bytes; 23:0 QPN or DCT number
  uint8_t stat_rate_sl;  // 7:4 static rate, 3:0 service level
  uint8_t fl_mlid;       // 7 force loopback, 6:0 low bits of the source LID
  be16 rlid;             // InfiniBand: destination LID; RoCE v2: UDP source port
  uint8_t reserved0[4];
  uint8_t rmac[6];  // RoCE: destination MAC
  uint8_t tclass;
  uint8_t hop_limit;
  be32 grh_gid_fl;  // 30 GRH, 27:20 source GID index, 19:0 flow label
  uint8_t rgid[16];
};
static_assert(sizeof(AvSeg) == 48 && offsetof(AvSeg, grh_gid_fl) == 28);
// Without the bit `extended` the segment ends before reserved0: enough for InfiniBand without GRH.
inline constexpr std::size_t short_av_bytes = 16;
static_assert(offsetof(AvSeg, reserved0) == short_av_bytes);

namespace av {
using extended = Field<&AvSeg::dqp, 31, 31>;
using qpn = Field<&AvSeg::dqp, 23, 0>;
constexpr uint64_t dc_key(const AvSeg& s) noexcept {
  return uint64_t{s.qkey.host()} << 32 | s.reserved.host();
}
using own_qkey = Field<&AvSeg::qkey, 31, 31>;
using grh = Field<&AvSeg::grh_gid_fl, 30, 30>;  // InfiniBand; reserved for RoCE
using gid_index = Field<&AvSeg::grh_gid_fl, 27, 20>;
using flow_label = Field<&AvSeg::grh_gid_fl, 19, 0>;
}  // namespace av

// Which shared receive queue of the peer an XRC request uses.
struct XrcSeg {
  be32 srqn;
  uint8_t reserved[12];
};
static_assert(sizeof(XrcSeg) == 16);

// First segment of a shared receive WQE. The queue is a linked list that software keeps.
struct SrqNextSeg {
  uint8_t reserved0[2];
  be16 next_wqe_index;  // of the list's next WQE, counted in WQEs
  uint8_t signature;
  uint8_t reserved1[11];
};
static_assert(sizeof(SrqNextSeg) == 16);

// The Global Routing Header, the first 40 bytes of the buffers of a UD receive (IBTA vol. 1,
// "Global Routing Header"). Laid out as an IPv6 header, which it is for RoCE v2 over IPv6.
struct GrhSeg {
  be32 version_class_label;  // 31:28 version, 27:20 traffic class, 19:0 flow label
  be16 payload_bytes;
  uint8_t next_header;
  uint8_t hop_limit;
  uint8_t sgid[16];
  uint8_t dgid[16];
};
static_assert(sizeof(GrhSeg) == 40);

}  // namespace kilim::inline v1::prm
