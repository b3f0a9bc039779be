// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_FLOW_TABLE", "SET_FLOW_TABLE_ENTRY", "FLOW_CONTEXT", "SYNC_STEERING", "Flow
// Sampler", "Set Action". Flow tables as DevX clients make them, by commands and by software: field
// offsets as Linux include/linux/mlx5/mlx5_ifc.h and rdma-core v44 providers/mlx5/mlx5_ifc.h lay
// them out. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/prm/hca_cap.hh"

namespace kilim::inline v1::prm {

namespace cmd {
inline constexpr uint16_t create_flow_table = 0x930, destroy_flow_table = 0x931,
                          query_flow_table = 0x932;
inline constexpr uint16_t create_flow_group = 0x933, destroy_flow_group = 0x934,
                          query_flow_group = 0x935;
inline constexpr uint16_t set_flow_table_entry = 0x936, query_flow_table_entry = 0x937,
                          delete_flow_table_entry = 0x938;
inline constexpr uint16_t alloc_packet_reformat = 0x93d, dealloc_packet_reformat = 0x93e,
                          query_packet_reformat = 0x93f;
inline constexpr uint16_t sync_steering = 0xb00;
inline constexpr uint16_t object_flow_sampler = 0x20;
inline constexpr uint16_t cap_roce = 4;
}  // namespace cmd

// Fields that all commands on a table, a group or an entry share, counted from the command's first
// bit.
namespace flow_cmd {
inline constexpr CapField other_vport{0x40, 1}, table_type{0x80, 8}, table_id{0xa8, 24},
    group_id{0xc0, 32}, flow_index{0x100, 32};
// Fields of CREATE_FLOW_GROUP and of QUERY_FLOW_GROUP's answer.
inline constexpr CapField start_flow_index{0xe0, 32}, end_flow_index{0x120, 32};
inline constexpr std::size_t query_bytes = 64;  // QUERY_FLOW_GROUP, QUERY_FLOW_TABLE_ENTRY
inline constexpr std::size_t context = 24, table_bytes = 64, group_bytes = 1024;
inline constexpr std::size_t criteria_enable_at = 63;  // CREATE_FLOW_GROUP: which headers count
inline constexpr std::size_t flow_context = 64, entry_bytes = 832;  // then its destinations
// table_type (Linux drivers/net/ethernet/mellanox/mlx5/core/fs_core.h, fs_flow_table_type).
inline constexpr uint32_t nic_rx = 0, nic_tx = 1, rdma_rx = 7, rdma_tx = 8;
// Answers.
inline constexpr CapField icm_address_39_32{0x40, 8}, made_id{0x48, 24}, icm_address_31_0{0x60, 32};
}  // namespace flow_cmd

// "Flow Table Context", from its first bit. Its first word says what the table is.
namespace flow_table_context {
inline constexpr CapField properties{0x00, 32};
inline constexpr CapField sw_owner{0x02, 1}, table_miss_action{0x04, 4}, level{0x08, 8},
    reformat_en{0x00, 1};
inline constexpr std::size_t sw_owner_icm_root_1 = 24, sw_owner_icm_root_0 = 32, bytes = 40;
}  // namespace flow_table_context

// "Flow Context", from its first bit.
namespace flow_context {
inline constexpr CapField group_id{0x20, 32}, flow_tag{0x48, 24}, action{0x70, 16},
    extended_destination{0x80, 1}, destination_list_size{0x88, 24},
    flow_counter_list_size{0xa8, 24};
inline constexpr std::size_t destinations = 768, destination_bytes = 8;
inline constexpr CapField destination_type{0x00, 8}, destination_id{0x08, 24};
inline constexpr uint32_t allow = 1, drop = 2, forward = 4, count = 8;  // of action
inline constexpr uint32_t to_table = 1, to_tir = 2;                     // destination_type
}  // namespace flow_context

// "Flow Sampler", from the object's first bit.
namespace flow_sampler {
inline constexpr std::size_t bytes = 40, icm_address_rx = 24, icm_address_tx = 32;
inline constexpr CapField table_type{0x40, 8}, sample_ratio{0x60, 32}, sample_table_id{0x88, 24},
    default_table_id{0xa8, 24};
}  // namespace flow_sampler

// ALLOC_PACKET_REFORMAT_CONTEXT, from the command's first bit.
namespace reformat_cmd {
// QUERY_PACKET_REFORMAT_CONTEXT's answer has them at the same places.
inline constexpr CapField type{0xe5, 3}, data_size{0xf6, 10};
inline constexpr std::size_t data = 34, query_bytes = 32;
inline constexpr uint32_t l2_to_l2_tunnel = 2, l2_to_l3_tunnel = 4;  // mlx5_reformat_ctx_type
}  // namespace reformat_cmd

// What a rule of the firmware's does to a header, 8 bytes: "Set Action", "Add Action", "Copy
// Action".
namespace set_action {
inline constexpr std::size_t bytes = 8;
inline constexpr CapField action_type{0x00, 4}, field{0x04, 12}, offset{0x13, 5}, length{0x1b, 5},
    data{0x20, 32}, dst_field{0x24, 12}, dst_offset{0x33, 5};
inline constexpr uint32_t set = 1, add = 2, copy = 3;
}  // namespace set_action

// The group of RoCE (cmd::cap_roce): queue pairs may be connected by "force loopback".
namespace roce_cap {
inline constexpr CapField fl_rc_qp_when_roce_disabled{0x05, 1}, fl_rc_qp_when_roce_enabled{0x06, 1};
}  // namespace roce_cap

// Capabilities of flow tables (flow_cap) about tables of the frames of RDMA queues.
namespace rdma_table_cap {
inline constexpr std::size_t receive = 0x400, transmit = 0xa00;  // bits: their properties
inline constexpr CapField ft_support{0x00, 1}, flow_counter{0x02, 1}, log_max_ft_size{0x22, 6},
    max_ft_level{0x38, 8};  // in the properties
}  // namespace rdma_table_cap

// Capabilities of flow tables (flow_cap) about steering by software, for receiving and sending.
namespace steering_cap {
inline constexpr CapField multi_path_tirs{0x00, 1}, multi_path_tirs_fts{0x01, 1},
    flow_tag_multipath{0x04, 1};
inline constexpr std::size_t receive = 0x200, transmit = 0x800;  // bits: their properties
inline constexpr CapField sw_owner{0x11, 1}, max_modify_header_actions{0x30, 8},
    max_ft_level{0x38, 8};  // in the properties
inline constexpr std::size_t rx_drop_address = 0x400, tx_drop_address = 0x408,
                             tx_allow_address = 0x410;  // bytes, of 64 bits each
}  // namespace steering_cap

// Capabilities of device memory (dm_cap) about the memory of steering, which has addresses of its
// own.
namespace icm_cap {
inline constexpr std::size_t steering_start = 24, header_modify_start = 40;  // bytes
inline constexpr CapField log_header_modify_size{0x108, 8}, log_granularity{0x112, 6},
    log_steering_size{0x118, 8};
}  // namespace icm_cap

}  // namespace kilim::inline v1::prm
