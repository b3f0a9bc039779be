// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Ethernet Segment". It follows the control segment in every WQE of a raw packet send queue.
// Names: mlx5_wqe_eth_seg of mlx5dv.h. Pure format, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"

namespace kilim::inline v1::prm {

struct EthSeg {
  // Offsets of headers, in words of two bytes, for a parser that does not find them itself (DPDK
  // mlx5_tx.h, txq_mbuf_to_swp(); Linux en_tx.c, mlx5e_set_eseg_swp()). 0: not said.
  uint8_t swp_outer_l4, swp_outer_l3, swp_inner_l4, swp_inner_l3;
  uint8_t cs_flags;   // eth::l3_csum, eth::l4_csum
  uint8_t swp_flags;  // eth::swp_*: what those headers are
  be16 mss;           // TSO only: bytes of TCP payload in each frame
  be32 rsvd2;
  be16 inline_hdr_sz;  // bytes of the frame's start that are in the WQE, 0 where the device allows
                       // none; or a tag to put in (insert_vlan) with its TCI in what follows
  uint8_t inline_hdr_start[2];  // the first two of them; the rest follows behind the segment
};
static_assert(sizeof(EthSeg) == 16 && offsetof(EthSeg, inline_hdr_sz) == 12 &&
              offsetof(EthSeg, inline_hdr_start) == 14);

// Checksums that the device computes: of the IP header, of TCP or UDP. Where a packet has a tunnel,
// those of the inner headers, and l3_csum is that of the outer IP header
// (MLX5_ETH_WQE_L3_INNER_CSUM ... of Linux mlx5/qp.h; DPDK mlx5_rxtx.c, mlx5_set_cksum_table()).
namespace eth {
inline constexpr uint8_t l3_inner_csum = 1 << 4;
inline constexpr uint8_t l4_inner_csum = 1 << 5;
inline constexpr uint8_t l3_csum = 1 << 6;
inline constexpr uint8_t l4_csum = 1 << 7;

// MLX5_ETH_WQE_SWP_INNER_L3_IPV6 ... of Linux mlx5/qp.h; without a bit IPv4, TCP.
inline constexpr uint8_t swp_inner_ipv6 = 1 << 0;
inline constexpr uint8_t swp_inner_udp = 1 << 1;
inline constexpr uint8_t swp_outer_ipv6 = 1 << 4;
inline constexpr uint8_t swp_outer_udp = 1 << 5;

// Instead of an inline header: a VLAN tag that the device puts into the frame, of type 0x8100, with
// `svlan` of 0x88a8 (MLX5_ETH_WQE_INSERT_VLAN, MLX5_ETH_WQE_SVLAN of Linux mlx5/qp.h).
inline constexpr uint16_t insert_vlan = 1 << 15;
inline constexpr uint16_t svlan = 1 << 0;
}  // namespace eth

}  // namespace kilim::inline v1::prm
