// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CQE Format". 64 bytes; in a queue of 128-byte entries this is the second half, and the
// first half holds inline receive data. Names: mlx5_cqe64 of mlx5dv.h. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/field.hh"
#include "kilim/prm/opcode.hh"

namespace kilim::inline v1::prm {

// A completion without an error. With inline receive the first 32 bytes are data.
struct Cqe {
  uint8_t outer_l3_tunneled;  // raw packets: cqe::tunneled, cqe::outer_ipv6
  uint8_t rsvd1;
  be16 wqe_id;
  uint8_t lro_tcppsh_abort_dupack;
  uint8_t lro_min_ttl;
  be16 lro_tcp_win;
  be32 lro_ack_seq_num;
  be32 rx_hash_result;
  uint8_t rx_hash_type;
  uint8_t ml_path;
  uint8_t rsvd20[2];
  be16 checksum;
  be16 slid;
  be32 flags_rqpn;          // 23:0 the sender's QPN, of UD receives
  uint8_t hds_ip_ext;       // raw packets: checksums that were right
  uint8_t l4_hdr_type_etc;  // raw packets: types of the headers
  be16 vlan_info;
  be32 srqn_uidx;       // user index given at CREATE_QP or CREATE_SRQ (cqe_version 1)
  be32 imm_inval_pkey;  // immediate data, or the key that was invalidated
  uint8_t app;          // tag::app_tag_matching, or 0
  uint8_t app_op;       // TagNews
  be16 app_info;
  be32 byte_cnt;  // bytes received, or read by a READ or an atomic
  be64 timestamp;
  be32 sop_drop_qpn;  // 31:24 opcode of the send WQE, 23:0 QPN
  be16 wqe_counter;   // send: index of the WQE's first basic block; receive: of the WQE
  uint8_t signature;
  uint8_t op_own;  // 7:4 CqeOpcode, 3:2 format, 1 solicited, 0 owner; written last
};
static_assert(sizeof(Cqe) == 64 && offsetof(Cqe, rx_hash_result) == 12 &&
              offsetof(Cqe, srqn_uidx) == 32 && offsetof(Cqe, byte_cnt) == 44 &&
              offsetof(Cqe, timestamp) == 48 && offsetof(Cqe, op_own) == 63);

// A completion among those that one compressed block reports: eight of them lie in an entry. What
// they do not say the block's first entry, its title, says for all (names: mlx5_mini_cqe8 of Linux
// include/linux/mlx5/device.h).
struct MiniCqe {
  be32 result;  // the hash; or mini_cqe::checksum and stride_index
  be32 byte_cnt;
};
static_assert(sizeof(MiniCqe) == 8);

namespace mini_cqe {
using checksum = Field<&MiniCqe::result, 31, 16>;     // of the IP packet, as Cqe::checksum
using stride_index = Field<&MiniCqe::result, 15, 0>;  // as wqe_counter of a striding queue
inline constexpr uint32_t in_entry = sizeof(Cqe) / sizeof(MiniCqe);

// A block of n completions takes n entries: title, eight minis in its second entry, the next eight
// in its ninth, and so on; the device leaves the others alone (Linux en_rx.c,
// mlx5e_decompress_cqes_start(); DPDK drivers/net/mlx5/mlx5_rx.c, mlx5_rx_poll_len()). The entry
// that completion `i` of the block is in, counted from the title:
constexpr uint32_t entry_of(uint32_t i) noexcept {
  return i < in_entry ? 1 : i / in_entry * in_entry;
}
}  // namespace mini_cqe

// A completion with an error: opcodes req_err and resp_err. The last four bytes are Cqe's.
struct ErrCqe {
  uint8_t rsvd0[32];
  be32 srqn;
  uint8_t rsvd1[18];
  uint8_t vendor_err_synd;
  uint8_t syndrome;       // prm::Syndrome
  be32 s_wqe_opcode_qpn;  // 31:24 opcode of the send WQE, 23:0 QPN
  be16 wqe_counter;
  uint8_t signature;
  uint8_t op_own;
};
static_assert(sizeof(ErrCqe) == 64 && offsetof(ErrCqe, vendor_err_synd) == 54 &&
              offsetof(ErrCqe, syndrome) == 55);

namespace cqe {
using wqe_opcode = Field<&Cqe::sop_drop_qpn, 31, 24>;
using qpn = Field<&Cqe::sop_drop_qpn, 23, 0>;
using err_wqe_opcode = Field<&ErrCqe::s_wqe_opcode_qpn, 31, 24>;
using err_qpn = Field<&ErrCqe::s_wqe_opcode_qpn, 23, 0>;
using rqpn = Field<&Cqe::flags_rqpn, 23, 0>;

// Bits of op_own. The device gives the owner bit the other value with each pass over the ring.
inline constexpr uint8_t owner_bit = 1;
inline constexpr uint8_t solicited_bit = 2;
constexpr CqeOpcode opcode_of(uint8_t op_own) noexcept {
  return static_cast<CqeOpcode>(op_own >> 4);
}
constexpr uint8_t format_of(uint8_t op_own) noexcept {
  return (op_own >> 2) & 3;
}
constexpr uint8_t op_own(CqeOpcode op, bool solicited, bool owner) noexcept {
  return static_cast<uint8_t>(static_cast<unsigned>(op) << 4 | (solicited ? solicited_bit : 0u) |
                              (owner ? 1u : 0u));
}
inline constexpr uint8_t invalid_op_own = 0xf0;  // preset by software: no CQE was written here yet

// Format, bits 3:2 of op_own: the received data is in the CQE, in its first 32 bytes or in the
// first half of a 128-byte entry (MLX5_INLINE_SCATTER_32, _64 of mlx5dv.h).
inline constexpr uint8_t inline_scatter_32 = 0x4;
inline constexpr uint8_t inline_scatter_64 = 0x8;
inline constexpr uint8_t format_mask = 0xc;
// The entry is the title of a compressed block: byte_cnt is the number of its completions, itself
// the first (MLX5_COMPRESSED of DPDK's mlx5_prm.h).
inline constexpr uint8_t compressed = 0xc;

// Bits of hds_ip_ext: the device found no error in the link layer, the IP header checksum and the
// TCP or UDP checksum (MLX5_CQE_L2_OK, L3_OK, L4_OK of mlx5dv.h).
inline constexpr uint8_t l2_ok = 1 << 0;
inline constexpr uint8_t l3_ok = 1 << 1;
inline constexpr uint8_t l4_ok = 1 << 2;

// l4_hdr_type_etc: 0 VLAN tag removed, 1 IP options or extension headers, 3:2 L3 type, 6:4 L4 type,
// 7 IP fragment.
inline constexpr uint8_t vlan_stripped = 1 << 0;
inline constexpr uint8_t ip_ext_opts = 1 << 1;
inline constexpr uint8_t ip_fragment = 1 << 7;
inline constexpr uint8_t l3_type_shift = 2;
inline constexpr uint8_t l3_none = 0, l3_ipv6 = 1, l3_ipv4 = 2;
inline constexpr uint8_t l4_type_shift = 4;
inline constexpr uint8_t l4_none = 0, l4_tcp = 1, l4_udp = 2, l4_tcp_empty_ack = 3, l4_tcp_ack = 4;

// outer_l3_tunneled: what hds_ip_ext and l4_hdr_type_etc say is of the headers in a tunnel (Linux
// device.h, cqe_is_tunneled(); DPDK mlx5_rxtx.c, mlx5_set_ptype_table(), index bits 6 and 7).
inline constexpr uint8_t tunneled = 1 << 0;
inline constexpr uint8_t outer_ipv6 = 1 << 1;

// lro_tcppsh_abort_dupack: a segment had the PSH flag (DPDK mlx5_prm.h, MLX5_CQE_LRO_PUSH_MASK).
inline constexpr uint8_t lro_push = 1 << 6;
// Segments that a large receive is made of; in front of the user index (mlx5_cqe64 of mlx5dv.h).
using lro_num_seg = Field<&Cqe::srqn_uidx, 31, 24>;

// byte_cnt of a striding queue: 15:0 bytes, 30:16 strides that the frame has used up, 31 it has no
// data (Linux drivers/net/ethernet/mellanox/mlx5/core/en_rx.c, mpwrq_get_cqe_byte_cnt()).
// wqe_counter is then the first stride, wqe_id the WQE.
inline constexpr uint32_t stride_filler = 1u << 31;
inline constexpr uint32_t strides_shift = 16;
inline constexpr uint32_t strides_mask = 0x7fff;

// rx_hash_type: 1:0 the addresses that were hashed, 3:2 whose ports (Linux
// include/linux/mlx5/device.h, CQE_RSS_HTYPE_IP and CQE_RSS_HTYPE_L4).
inline constexpr uint8_t hash_ipv4 = 1, hash_ipv6 = 2, hash_tcp = 4, hash_udp = 8;
}  // namespace cqe

}  // namespace kilim::inline v1::prm
