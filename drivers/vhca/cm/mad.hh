// SPDX-License-Identifier: BSD-3-Clause
// Messages of communication management as they lie in a management datagram (IBTA "MAD Base Format"
// 13.4.2 and 12.6 "Communication Management Messages"; the kernel's <rdma/ibta_vol1_c12.h>), and
// the private data's IP header (annex A11, cma.c struct cma_hdr). Pure values, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/field.hh"
#include "vhca/cm/values.hh"

namespace kilim::vhca::cm {

inline constexpr std::size_t mad_bytes = 256;
using Mad = std::array<std::byte, mad_bytes>;

struct MadHeader {
  uint8_t base_version, mgmt_class, class_version, method;
  be16 status, class_specific;
  be64 tid;
  be16 attribute, reserved;
  be32 modifier;
};
static_assert(sizeof(MadHeader) == 24);

namespace mad {
inline constexpr uint8_t base_version = 1;   // IB_MGMT_BASE_VERSION
inline constexpr uint8_t class_cm = 7;       // IB_MGMT_CLASS_CM
inline constexpr uint8_t class_version = 2;  // IB_CM_CLASS_VERSION
inline constexpr uint8_t method_send = 3;    // IB_MGMT_METHOD_SEND
}  // namespace mad

// <rdma/ib_cm.h>, CM_*_ATTR_ID.
enum class Attribute : uint16_t {
  req = 0x10,
  mra,
  rej,
  rep,
  rtu,
  dreq,
  drep,
  sidr_req,
  sidr_rep,
  lap,
  apr,
};

// A path of a REQ, the primary or the alternate one.
struct PathFields {
  be32 lids;  // 31:16 local, 15:0 remote
  uint8_t local_gid[16], remote_gid[16];
  be32 flow_rate;
  be32 class_hops_sl_timeout;
};
static_assert(sizeof(PathFields) == 44);

namespace path_field {
using local_lid = Field<&PathFields::lids, 31, 16>;
using remote_lid = Field<&PathFields::lids, 15, 0>;
using flow_label = Field<&PathFields::flow_rate, 31, 12>;
using rate = Field<&PathFields::flow_rate, 5, 0>;
using traffic_class = Field<&PathFields::class_hops_sl_timeout, 31, 24>;
using hop_limit = Field<&PathFields::class_hops_sl_timeout, 23, 16>;
using sl = Field<&PathFields::class_hops_sl_timeout, 15, 12>;
using subnet_local = Field<&PathFields::class_hops_sl_timeout, 11, 11>;
using local_ack_timeout = Field<&PathFields::class_hops_sl_timeout, 7, 3>;
}  // namespace path_field

// Table 106.
struct ReqMad {
  MadHeader header;
  be32 local_comm_id, reserved4;
  be64 service_id, ca_guid;
  be32 reserved24, qkey;
  be32 qpn_resources, eecn_depth, eecn_timeout_service, psn_timeout_retry;
  be32 pkey_mtu_retries;
  PathFields primary, alternate;
  uint8_t private_data[most::req];
};
static_assert(sizeof(ReqMad) == mad_bytes);

namespace req {
using qpn = Field<&ReqMad::qpn_resources, 31, 8>;
using responder_resources = Field<&ReqMad::qpn_resources, 7, 0>;
using initiator_depth = Field<&ReqMad::eecn_depth, 7, 0>;
using remote_timeout = Field<&ReqMad::eecn_timeout_service, 7, 3>;
using service = Field<&ReqMad::eecn_timeout_service, 2, 1>;
using flow_control = Field<&ReqMad::eecn_timeout_service, 0, 0>;
using psn = Field<&ReqMad::psn_timeout_retry, 31, 8>;
using local_timeout = Field<&ReqMad::psn_timeout_retry, 7, 3>;
using retry_count = Field<&ReqMad::psn_timeout_retry, 2, 0>;
using pkey = Field<&ReqMad::pkey_mtu_retries, 31, 16>;
using path_mtu = Field<&ReqMad::pkey_mtu_retries, 15, 12>;
using rnr_retry_count = Field<&ReqMad::pkey_mtu_retries, 10, 8>;
using max_cm_retries = Field<&ReqMad::pkey_mtu_retries, 7, 4>;
using srq = Field<&ReqMad::pkey_mtu_retries, 3, 3>;
using extended = Field<&ReqMad::pkey_mtu_retries, 2, 0>;
// cm_msgs.h, cm_req_set_qp_type().
inline constexpr uint8_t service_rc = 0, service_uc = 1, service_extended = 3, extended_xrc = 1;
}  // namespace req

// Which message an MRA or a REJ is about (cm_msgs.h, enum cm_msg_response).
enum class About : uint8_t { req = 0, rep = 1, other = 2 };

// Table 107. What all messages between two ids begin with: the sender's id, the receiver's.
struct MraMad {
  MadHeader header;
  be32 local_comm_id, remote_comm_id;
  be16 about_timeout;
  uint8_t private_data[most::mra];
};
static_assert(sizeof(MraMad) == mad_bytes);

namespace mra {
using about = Field<&MraMad::about_timeout, 15, 14>;
using service_timeout = Field<&MraMad::about_timeout, 7, 3>;
}  // namespace mra

// Table 108.
struct RejMad {
  MadHeader header;
  be32 local_comm_id, remote_comm_id;
  be32 about_length_reason;
  uint8_t info[most::ari];
  uint8_t private_data[most::rej];
};
static_assert(sizeof(RejMad) == mad_bytes);

namespace rej {
using about = Field<&RejMad::about_length_reason, 31, 30>;
using info_length = Field<&RejMad::about_length_reason, 23, 17>;
using reason = Field<&RejMad::about_length_reason, 15, 0>;
}  // namespace rej

// Table 110.
struct RepMad {
  MadHeader header;
  be32 local_comm_id, remote_comm_id;
  be32 qkey, qpn_word, eecn_word, psn_word;
  be32 resources_delay_retries;
  be32 guid_high, guid_low;
  uint8_t private_data[most::rep];
};
static_assert(sizeof(RepMad) == mad_bytes);

namespace rep {
using qpn = Field<&RepMad::qpn_word, 31, 8>;
using eecn = Field<&RepMad::eecn_word, 31, 8>;
using psn = Field<&RepMad::psn_word, 31, 8>;
using responder_resources = Field<&RepMad::resources_delay_retries, 31, 24>;
using initiator_depth = Field<&RepMad::resources_delay_retries, 23, 16>;
using target_ack_delay = Field<&RepMad::resources_delay_retries, 15, 11>;
using failover = Field<&RepMad::resources_delay_retries, 10, 9>;
using flow_control = Field<&RepMad::resources_delay_retries, 8, 8>;
using rnr_retry_count = Field<&RepMad::resources_delay_retries, 7, 5>;
using srq = Field<&RepMad::resources_delay_retries, 4, 4>;
}  // namespace rep

// Tables 111 and 113: RTU and DREP.
struct RtuMad {
  MadHeader header;
  be32 local_comm_id, remote_comm_id;
  uint8_t private_data[most::rtu];
};
static_assert(sizeof(RtuMad) == mad_bytes && most::rtu == most::drep);

// Table 112.
struct DreqMad {
  MadHeader header;
  be32 local_comm_id, remote_comm_id;
  be32 qpn_word;
  uint8_t private_data[most::dreq];
};
static_assert(sizeof(DreqMad) == mad_bytes);

namespace dreq {
using remote_qpn = Field<&DreqMad::qpn_word, 31, 8>;
}

// Table 119.
struct SidrReqMad {
  MadHeader header;
  be32 request_id, pkey_word;
  be64 service_id;
  uint8_t private_data[most::sidr_req];
};
static_assert(sizeof(SidrReqMad) == mad_bytes);

namespace sidr_req {
using pkey = Field<&SidrReqMad::pkey_word, 31, 16>;
}

// Table 120.
struct SidrRepMad {
  MadHeader header;
  be32 request_id, status_length;
  be32 qpn_word, service_high, service_low, qkey;
  uint8_t info[most::ari];
  uint8_t private_data[most::sidr_rep];
};
static_assert(sizeof(SidrRepMad) == mad_bytes);

namespace sidr_rep {
using status = Field<&SidrRepMad::status_length, 31, 24>;
using info_length = Field<&SidrRepMad::status_length, 23, 16>;
using qpn = Field<&SidrRepMad::qpn_word, 31, 8>;
}  // namespace sidr_rep

// cma.c, struct cma_hdr.
struct IpHeaderFields {
  uint8_t cma_version, ip_version;  // 0; 4 or 6 in bits 7:4
  be16 source_port;
  uint8_t source[16], destination[16];
};
static_assert(sizeof(IpHeaderFields) == most::ip_header);

}  // namespace kilim::vhca::cm
