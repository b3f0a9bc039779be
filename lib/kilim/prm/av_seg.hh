// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Address Vector", "XRC Segment". What stands between the control segment and the rest in the
// send WQEs of datagram, XRC and dynamically connected queues. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/be.hh"
#include "kilim/base/field.hh"

namespace kilim::prm {

// One datagram's way: key, queue, and the address as RoCE has it. A dynamic connection's key takes
// both first words, and its target's number that of the queue.
struct AvSeg {
  be32 qkey;  // bit 31: the queue's own key instead
  be32 reserved;
  be32 dqp;              // 31 the address is complete (48 bytes), 23:0 QPN
  uint8_t stat_rate_sl;  // 7:4 rate, 3:0 service level
  uint8_t fl_mlid;
  be16 rlid;  // InfiniBand: destination LID; RoCE v2: UDP source port
  uint8_t reserved0[4];
  uint8_t rmac[6];
  uint8_t tclass;
  uint8_t hop_limit;
  be32 grh_gid_fl;  // 30 GRH, 27:20 source GID index, 19:0 flow label
  uint8_t rgid[16];
};
static_assert(sizeof(AvSeg) == 48 && offsetof(AvSeg, grh_gid_fl) == 28);
// Without the flag the segment ends in front of reserved0.
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

struct XrcSeg {
  be32 srqn;
  uint8_t reserved[12];
};
static_assert(sizeof(XrcSeg) == 16);

// What opens a receive WQE of a shared queue: the ring is a list in the client's hands.
struct SrqNextSeg {
  uint8_t reserved0[2];
  be16 next_wqe_index;
  uint8_t signature;
  uint8_t reserved1[11];
};
static_assert(sizeof(SrqNextSeg) == 16);

// The header that a datagram's receiver finds before the data (RoCE v2: that of IPv6).
struct GrhSeg {
  be32 version_class_label;  // 31:28 version, 27:20 traffic class, 19:0 flow label
  be16 payload_bytes;
  uint8_t next_header;
  uint8_t hop_limit;
  uint8_t sgid[16];
  uint8_t dgid[16];
};
static_assert(sizeof(GrhSeg) == 40);

}  // namespace kilim::prm
