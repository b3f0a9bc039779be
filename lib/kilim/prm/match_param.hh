// SPDX-License-Identifier: BSD-3-Clause
// PRM: "FTE_MATCH_PARAM": the headers that a flow rule looks at, as mlx5dv_create_flow(3) takes
// value and mask. Field offsets as Linux include/linux/mlx5/mlx5_ifc.h lays them out (struct
// mlx5_ifc_fte_match_set_lyr_2_4_bits, mlx5_ifc_fte_match_set_misc_bits). Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/prm/hca_cap.hh"

namespace kilim::inline v1::prm {

// Byte offsets of each set of headers, and the length with the first three sets (`bytes`) and with
// "FTE_MATCH_SET_MISC3" too (`bytes_misc3`).
namespace match_param {
inline constexpr std::size_t outer = 0, misc = 64, inner = 128, bytes = 192, misc3 = 256,
                             bytes_misc3 = 320;
// Which of them count: match_criteria_enable.
inline constexpr uint8_t outer_counts = 1 << 0, misc_counts = 1 << 1, inner_counts = 1 << 2,
                         misc3_counts = 1 << 4;
}  // namespace match_param

// "FTE_MATCH_SET_LYR_2_4": outer or inner headers, from the set's first bit. Addresses lie at byte
// offsets; of IPv4 in the last four of their 16 bytes.
namespace match_lyr_2_4 {
inline constexpr std::size_t smac = 0, dmac = 8, src_ip = 32, dst_ip = 48;
inline constexpr CapField ethertype{0x30, 16};
inline constexpr CapField vlan_tci{0x70, 16};  // first_prio, first_cfi, first_vid
inline constexpr CapField ip_protocol{0x80, 8};
inline constexpr CapField ip_tos{0x88, 8};  // ip_dscp, ip_ecn
inline constexpr CapField cvlan_tag{0x90, 1}, svlan_tag{0x91, 1}, frag{0x92, 1};
inline constexpr CapField ip_version{0x93, 4};
inline constexpr CapField tcp_flags{0x97, 9};
inline constexpr CapField tcp_sport{0xa0, 16}, tcp_dport{0xb0, 16};
inline constexpr CapField ttl_hoplimit{0xd8, 8};
inline constexpr CapField udp_sport{0xe0, 16}, udp_dport{0xf0, 16};
}  // namespace match_lyr_2_4

// "FTE_MATCH_SET_MISC", from the set's first bit.
namespace match_further {
inline constexpr CapField gre_present{0x00, 4};  // gre_c_present, reserved, gre_k_, gre_s_present
inline constexpr CapField outer_second_cvlan_tag{0x60, 1}, inner_second_cvlan_tag{0x61, 1};
inline constexpr CapField gre_protocol{0x70, 16};
inline constexpr CapField gre_key{0x80, 32};
inline constexpr CapField vxlan_vni{0xa0, 24};
inline constexpr CapField outer_ipv6_flow_label{0xec, 20}, inner_ipv6_flow_label{0x10c, 20};
inline constexpr CapField outer_esp_spi{0x180, 32};
}  // namespace match_further

// "FTE_MATCH_SET_MISC3", from the set's first bit (mlx5_ifc_fte_match_set_misc3_bits).
namespace match_icmp {
inline constexpr CapField icmp_header_data{0xc0, 32}, icmpv6_header_data{0xe0, 32};
inline constexpr CapField icmp_type{0x100, 8}, icmp_code{0x108, 8};
inline constexpr CapField icmpv6_type{0x110, 8}, icmpv6_code{0x118, 8};
}  // namespace match_icmp

}  // namespace kilim::inline v1::prm
