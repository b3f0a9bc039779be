// SPDX-License-Identifier: BSD-3-Clause
// PRM: "CREATE_CQ", "CREATE_SQ", "CREATE_RQ", "CREATE_RQT", "CREATE_TIR", "CREATE_TIS" and what
// changes and asks these: contexts as commands have them, field by field with the PRM's names and
// bit offsets. Source: Linux include/linux/mlx5/mlx5_ifc.h (struct mlx5_ifc_cqc_bits and so on).
// Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/prm/hca_cap.hh"

namespace kilim::inline v1::prm {

// What these commands have in common. 64-bit values lie at a byte offset.
namespace queue_cmd {
inline constexpr CapField state_now{0x40, 4};      // of MODIFY_SQ, MODIFY_RQ
inline constexpr std::size_t modify_bitmask = 16;  // 64 bits
inline constexpr std::size_t context = 32;         // of all but CREATE_CQ; of answers too
inline constexpr std::size_t context_bytes = 240;  // of an SQ, RQ, RQT, TIR
inline constexpr std::size_t bytes = 272;          // of these commands; a table's list follows
inline constexpr uint32_t state_reset = 0, state_ready = 1, state_error = 3;
}  // namespace queue_cmd

// CREATE_CQ; QUERY_CQ's answer has the context at the same place.
namespace cq_cmd {
inline constexpr std::size_t context = 16, context_bytes = 64, bytes = 272;
inline constexpr std::size_t umem_offset = 80;  // 64 bits
inline constexpr CapField umem_id{0x2c0, 32};
inline constexpr CapField umem_valid{0x2e0, 1};
}  // namespace cq_cmd

// "Completion Queue Context".
namespace cqc {
inline constexpr CapField status{0x00, 4};
inline constexpr CapField dbr_umem_valid{0x06, 1};
inline constexpr CapField cqe_sz{0x08, 3};  // 0: 64 bytes, 1: 128, 2: 128 and padded
inline constexpr CapField cc{0x0b, 1};      // collapsed: the first entry is written again and again
inline constexpr CapField oi{0x0e, 1};      // overrun ignored
inline constexpr CapField cqe_comp_en{0x11, 1};
inline constexpr CapField mini_cqe_res_format{0x12, 2};  // 0 hash, 1 checksum, 2 extended, 3 none
inline constexpr CapField cqe_comp_layout{0x19, 7};
inline constexpr CapField dbr_umem_id{0x20, 32};
inline constexpr CapField mini_cqe_res_format_ext{0x5c, 2};
inline constexpr CapField cq_timestamp_format{0x5e, 2};
inline constexpr CapField log_cq_size{0x63, 5};
inline constexpr CapField uar_page{0x68, 24};
inline constexpr CapField cq_period{0x84, 12};
inline constexpr CapField cq_max_count{0x90, 16};
inline constexpr CapField c_eqn{0xb8, 8};
inline constexpr CapField consumer_counter{0x148, 24};
inline constexpr CapField producer_counter{0x168, 24};
inline constexpr std::size_t dbr_addr = 56;  // 64 bits; with dbr_umem_valid an offset
}  // namespace cqc

// "Work Queue Context", within an SQ's or RQ's from byte 48 on.
namespace wq_context {
inline constexpr std::size_t at = 48;
inline constexpr CapField wq_type{0x00, 4};
inline constexpr uint32_t linked = 0, cyclic = 1, cyclic_striding = 3;
inline constexpr CapField wq_signature{0x04, 1};
inline constexpr CapField end_padding_mode{0x05, 2};
inline constexpr CapField lwm{0x30, 16};  // fewer receives than this raise an event
inline constexpr CapField pd{0x48, 24};
inline constexpr CapField uar_page{0x68, 24};
inline constexpr std::size_t dbr_addr = 16;  // 64 bits; with dbr_umem_valid an offset
inline constexpr CapField log_wq_stride{0x10c, 4};
inline constexpr CapField log_wq_sz{0x11b, 5};
inline constexpr CapField dbr_umem_valid{0x120, 1};
inline constexpr CapField wq_umem_valid{0x121, 1};
inline constexpr CapField single_wqe_log_num_of_strides{0x134, 4};  // less 9
inline constexpr CapField two_byte_shift_en{0x138, 1};
inline constexpr CapField single_stride_log_num_of_bytes{0x13d, 3};  // less 6
inline constexpr CapField dbr_umem_id{0x140, 32};
inline constexpr CapField wq_umem_id{0x160, 32};
inline constexpr std::size_t wq_umem_offset = 48;  // 64 bits
inline constexpr uint32_t min_log_strides = 9, min_log_stride_bytes = 6;
}  // namespace wq_context

// "SQ Context".
namespace sqc {
inline constexpr CapField allow_multi_pkt_send_wqe{0x04, 1};
inline constexpr CapField min_wqe_inline_mode{0x05, 3};
inline constexpr CapField state{0x08, 4};
inline constexpr CapField allow_swp{0x0d, 1};
inline constexpr CapField hairpin{0x0e, 1};
inline constexpr CapField non_wire{0x0f, 1};
inline constexpr CapField user_index{0x28, 24};
inline constexpr CapField cqn{0x48, 24};
inline constexpr CapField packet_pacing_rate_limit_index{0xf0, 16};
inline constexpr CapField tis_lst_sz{0x100, 16};
inline constexpr CapField tis_num_0{0x168, 24};
}  // namespace sqc

// "RQ Context".
namespace rqc {
inline constexpr CapField delay_drop_en{0x01, 1};
inline constexpr CapField scatter_fcs{0x02, 1};
inline constexpr CapField vsd{0x03, 1};  // tags are not stripped
inline constexpr CapField mem_rq_type{0x04, 4};
inline constexpr CapField state{0x08, 4};
inline constexpr CapField hairpin{0x0e, 1};
inline constexpr CapField user_index{0x28, 24};
inline constexpr CapField cqn{0x48, 24};
inline constexpr CapField counter_set_id{0x60, 8};
// Bits of MODIFY_RQ's mask.
inline constexpr uint64_t mask_wq_lwm = 1 << 0, mask_vsd = 1 << 1, mask_scatter_fcs = 1 << 2,
                          mask_counter_set = 1 << 3;
}  // namespace rqc

// "RQT Context": numbers of receive queues stand behind it, a word each.
namespace rqtc {
inline constexpr CapField rqt_max_size{0xb0, 16};
inline constexpr CapField rqt_actual_size{0xd0, 16};
inline constexpr uint64_t mask_list = 1 << 0;  // of MODIFY_RQT's mask
}  // namespace rqtc

// "TIR Context".
namespace tirc {
inline constexpr CapField disp_type{0x20, 4};  // 0: to inline_rqn, 1: to indirect_table
inline constexpr CapField lro_timeout_period_usecs{0x84, 16};
inline constexpr CapField lro_enable_mask{0x94, 4};
inline constexpr CapField lro_max_msg_sz{0x98, 8};  // in units of 256 bytes
inline constexpr CapField inline_rqn{0xe8, 24};
inline constexpr CapField rx_hash_symmetric{0x100, 1};
inline constexpr CapField tunneled_offload_en{0x102, 1};
inline constexpr CapField indirect_table{0x108, 24};
inline constexpr CapField rx_hash_fn{0x120, 4};     // 0 none, 1 inverted XOR, 2 Toeplitz
inline constexpr CapField self_lb_block{0x126, 2};  // 1 unicast, 2 multicast
inline constexpr CapField transport_domain{0x128, 24};
inline constexpr std::size_t rx_hash_toeplitz_key = 40;  // 40 bytes
inline constexpr CapField outer_l3_is_ipv6{0x280, 1}, outer_l4_is_udp{0x281, 1};
inline constexpr CapField outer_fields{0x282, 30};
inline constexpr CapField inner_selector{0x2a0, 32};
inline constexpr CapField inner_l3_is_ipv6{0x2a0, 1}, inner_l4_is_udp{0x2a1, 1};
inline constexpr CapField inner_fields{0x2a2, 30};
inline constexpr uint32_t addresses = 0x3, known_fields = 0xf;   // with ports; 0x10 is IPsec's
inline constexpr uint32_t lro_ipv4 = 1 << 0, lro_ipv6 = 1 << 1;  // of lro_enable_mask
inline constexpr uint32_t direct = 0, indirect = 1, hash_none = 0, hash_toeplitz = 2;
// Bits of MODIFY_TIR's mask.
inline constexpr uint64_t mask_lro = 1 << 0, mask_table = 1 << 1, mask_hash = 1 << 2,
                          mask_self_lb = 1 << 4;  // mlx5_ifc.h, modify_tir_bitmask_bits
}  // namespace tirc

// "TIS Context", 160 bytes.
namespace tisc {
inline constexpr std::size_t bytes = 160, command_bytes = 192, answer = 16;
inline constexpr CapField transport_domain{0x128, 24};
}  // namespace tisc

// Q counters: QUERY_Q_COUNTER's command and answer.
namespace q_counter {
inline constexpr std::size_t command_bytes = 32, answer_bytes = 256;
inline constexpr CapField clear{0xc0, 1};
inline constexpr CapField counter_set_id{0xf8, 8};
inline constexpr std::size_t out_of_buffer = 48;
}  // namespace q_counter

// QUERY_FLOW_COUNTER: its command, and one counter of its answer.
namespace flow_counter {
inline constexpr std::size_t command_bytes = 32, answer_bytes = 32;
inline constexpr CapField clear{0xc0, 1}, dump_to_memory{0xc1, 1}, num_of_counters{0xc2, 30};
inline constexpr CapField bulk_log_size{0x73, 5}, bulk{0x78, 8};  // of ALLOC_FLOW_COUNTER
inline constexpr std::size_t number = 28, packets = 16, octets = 24;
inline constexpr std::size_t statistics = 16, statistics_bytes = 16;  // of each that is asked for
inline constexpr uint32_t bulk_unit = 128;  // counters, times the one bit of `bulk`
}  // namespace flow_counter

namespace cmd {
inline constexpr uint16_t alloc_flow_counter = 0x939, dealloc_flow_counter = 0x93a,
                          query_flow_counter = 0x93b;
inline constexpr uint16_t create_cq = 0x400, destroy_cq = 0x401, query_cq = 0x402,
                          modify_cq = 0x403;
inline constexpr uint16_t alloc_q_counter = 0x771, dealloc_q_counter = 0x772,
                          query_q_counter = 0x773;
inline constexpr uint16_t alloc_transport_domain = 0x816, dealloc_transport_domain = 0x817;
inline constexpr uint16_t create_tir = 0x900, modify_tir = 0x901, destroy_tir = 0x902,
                          query_tir = 0x903;
inline constexpr uint16_t create_sq = 0x904, modify_sq = 0x905, destroy_sq = 0x906,
                          query_sq = 0x907;
inline constexpr uint16_t create_rq = 0x908, modify_rq = 0x909, destroy_rq = 0x90a,
                          query_rq = 0x90b;
inline constexpr uint16_t create_tis = 0x912, modify_tis = 0x913, destroy_tis = 0x914,
                          query_tis = 0x915;
inline constexpr uint16_t create_rqt = 0x916, modify_rqt = 0x917, destroy_rqt = 0x918,
                          query_rqt = 0x919;
}  // namespace cmd

}  // namespace kilim::inline v1::prm
