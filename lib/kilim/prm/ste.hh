// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Steering Table Entry". The entries of steering by software, format 0, that of a ConnectX-5:
// rdma-core v44 providers/mlx5/mlx5_ifc.h (ste_general, ste_rx_steering_mult, ste_sx_transmit,
// ste_modify_packet and the lookups) and dr_ste_v0.c, which says what the fields mean. Pure
// formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/prm/hca_cap.hh"

namespace kilim::inline v1::prm::ste {

// An entry: what is done, what the looked-up bytes have to be, which of their bits count.
inline constexpr std::size_t bytes = 64, log_bytes = 6, tag_at = 32, mask_at = 48, tag_bytes = 16;

inline constexpr CapField entry_type{0x00, 4}, entry_sub_type{0x08, 8}, byte_mask{0x10, 16};
inline constexpr CapField next_lu_type{0x30, 8};
// An address in units of 32 bytes; its lowest bit that is set is the number of entries there.
inline constexpr CapField next_table_base_39_32_size{0x38, 8}, next_table_base_31_5_size{0x40, 27};
inline constexpr CapField counter_trigger_15_0{0xb0, 16}, counter_trigger_23_16{0xd0, 8};
inline constexpr CapField miss_address_39_32{0xd8, 8}, miss_address_31_6{0xe0, 26};
inline constexpr uint32_t type_tx = 1, type_rx = 2, type_modify_packet = 6;

// Fields of an entry that receives.
inline constexpr CapField qp_list_pointer{0x80, 32}, tunneling_action{0xa1, 3};
inline constexpr uint32_t has_flow_tag = 1u << 31;  // of qp_list_pointer; the tag below it
inline constexpr uint32_t tunnel_none = 0, tunnel_enable = 1, tunnel_decap = 2, tunnel_decap_l3 = 3,
                          tunnel_pop_vlan = 4;

// Fields of an entry that sends.
inline constexpr CapField action_type{0x66, 3}, encap_pointer_vlan_data{0x80, 32};
inline constexpr uint32_t action_none = 0, action_push_vlan = 1, action_encap_l3 = 3,
                          action_encap = 4;

// Fields of an entry that rewrites headers. The pointer counts in units of 64 bytes.
inline constexpr CapField number_of_re_write_actions{0x60, 16};
inline constexpr CapField header_re_write_actions_pointer{0x80, 32};
inline constexpr std::size_t rewrite_unit = 64;

// What is looked up (dr_ste_v0_lu_type). Suffixes: _o outer headers, _i inner ones, _d the outer
// ones as they are received.
namespace lookup {
inline constexpr uint8_t nop = 0x00, source_queue = 0x05;
inline constexpr uint8_t l2_dst_o = 0x06, l2_dst_i = 0x07, l2_dst_d = 0x1b;
inline constexpr uint8_t l2_src_o = 0x08, l2_src_i = 0x09, l2_src_d = 0x1c;
inline constexpr uint8_t l2_tunnel_i = 0x0a;
inline constexpr uint8_t l2_src_dst_o = 0x36, l2_src_dst_i = 0x37, l2_src_dst_d = 0x38;
inline constexpr uint8_t ipv6_dst_o = 0x0d, ipv6_dst_i = 0x0e, ipv6_dst_d = 0x1e;
// Entries that do not care have the number of ipv6_src_o, and no bits in their mask.
inline constexpr uint8_t ipv6_src_o = 0x0f, ipv6_src_i = 0x10, ipv6_src_d = 0x1f;
inline constexpr uint8_t ipv4_5_tuple_o = 0x11, ipv4_5_tuple_i = 0x12, ipv4_5_tuple_d = 0x20;
inline constexpr uint8_t ipv4_misc_o = 0x29, ipv4_misc_i = 0x2a, ipv4_misc_d = 0x2b;
inline constexpr uint8_t l4_o = 0x13, l4_i = 0x14, l4_d = 0x21;
inline constexpr uint8_t gre_header = 0x16, general_purpose = 0x18;
inline constexpr uint8_t registers_0 = 0x2f, registers_1 = 0x30;
}  // namespace lookup

// What a lookup finds, 16 bytes: the fields that this project's device fills in.
namespace l2 {  // ste_eth_l2_src, ste_eth_l2_dst, ste_eth_l2_tnl: an address of 48 bits, the type
inline constexpr CapField l3_ethertype{0x30, 16}, first_vlan_qualifier{0x50, 2};
inline constexpr CapField first_tci_high{0x4c, 4}, first_vlan_id{0x54, 12};  // priority and CFI
inline constexpr CapField ip_fragmented{0x60, 1}, tcp_syn{0x61, 1}, l3_type{0x64, 2},
    l4_type{0x66, 2};
inline constexpr CapField second_vlan_qualifier{0x70, 2}, second_tci_high{0x6c, 4},
    second_vlan_id{0x74, 12};
}  // namespace l2
namespace l2_tunnel {  // ste_eth_l2_tnl, where it differs
inline constexpr CapField l2_tunneling_network_id{0x40, 32}, first_tci_high{0x68, 4},
    first_vlan_qualifier{0x70, 2}, first_vlan_id{0x74, 12};
}  // namespace l2_tunnel
namespace l2_src_dst {  // ste_eth_l2_src_dst: both addresses, the destination's first
inline constexpr CapField l3_type{0x64, 2}, first_tci_high{0x6c, 4}, first_vlan_qualifier{0x70, 2},
    first_vlan_id{0x74, 12};
}  // namespace l2_src_dst
namespace ipv4_5_tuple {
inline constexpr CapField destination_address{0x00, 32}, source_address{0x20, 32},
    source_port{0x40, 16}, destination_port{0x50, 16}, fragmented{0x60, 1}, ecn{0x65, 2},
    tcp_flags{0x67, 9}, dscp{0x70, 6}, protocol{0x78, 8};
}  // namespace ipv4_5_tuple
namespace ipv4_more {  // ste_eth_l3_ipv4_misc
inline constexpr CapField version{0x00, 4}, ihl{0x04, 4}, time_to_live{0x40, 8};
}  // namespace ipv4_more
namespace l4 {
inline constexpr CapField fragmented{0x00, 1}, protocol{0x08, 8}, dst_port{0x10, 16}, ecn{0x25, 2},
    tcp_flags{0x27, 9}, src_port{0x30, 16}, ipv6_hop_limit{0x50, 8}, dscp{0x58, 6},
    flow_label{0x6c, 20};
}  // namespace l4
namespace gre {
inline constexpr CapField present{0x00, 4}, gre_protocol{0x10, 16}, gre_key{0x40, 32};
}  // namespace gre
namespace source {
inline constexpr CapField source_qp{0x28, 24};
}  // namespace source
// Of first_vlan_qualifier, l3_type and l4_type (mlx5dv_dr.h, dr_ste.h).
inline constexpr uint32_t svlan = 1, cvlan = 2, ipv4 = 1, ipv6 = 2, tcp = 1, udp = 2;

// An action on a header, 8 bytes (mlx5_ifc.h, dr_action_hw_set, dr_action_hw_copy): of a field of
// 64 bits `length` bits, 0: 32, from `shifter` on. A copy takes as many from another field.
namespace rewrite {
inline constexpr std::size_t bytes = 8;
inline constexpr CapField opcode{0x00, 8}, destination_field_code{0x08, 8},
    destination_left_shifter{0x12, 6}, set_length{0x1b, 5}, copy_length{0x1a, 6},
    inline_data{0x20, 32}, source_field_code{0x28, 8}, source_left_shifter{0x32, 6};
// Between two actions on one field software leaves a place empty (dr_action.c).
inline constexpr uint8_t none = 0, copy = 1, set = 2, add = 3;
// dr_ste_v0.c, DR_STE_V0_ACTION_MDFY_FLD_*.
inline constexpr uint8_t l2_0 = 0x00, l2_1 = 0x01, l2_2 = 0x02, l3_0 = 0x03, l3_1 = 0x04,
                         l3_2 = 0x05, l3_3 = 0x06, l3_4 = 0x07, l4_0 = 0x08, l4_1 = 0x09,
                         reg_0 = 0x0c, reg_1 = 0x0d, reg_2 = 0x0e, reg_3 = 0x0f, metadata = 0x16;
}  // namespace rewrite
}  // namespace kilim::inline v1::prm::ste
