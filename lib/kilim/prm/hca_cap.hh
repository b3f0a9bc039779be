// SPDX-License-Identifier: BSD-3-Clause
// PRM: "HCA Capabilities", the fields that Kilim reads and the virtual device reports, by groups. A
// field has the PRM's name and its bit offset from the start of the group, as Linux
// include/linux/mlx5/mlx5_ifc.h (struct mlx5_ifc_cmd_hca_cap_bits) lays it out. Pure values, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilim::inline v1::prm {

struct CapField {
  uint16_t bit;    // offset from the start; bit 0 is the highest bit of byte 0
  uint16_t width;  // at most 32, within one dword
};

// The general group. log_*: log2 of the number.
namespace hca_cap {
inline constexpr CapField hca_cap_2{0x20, 1};  // there is a second general group
inline constexpr CapField log_dma_mmo_max_size{0x6b, 5};
inline constexpr CapField log_max_qp_sz{0x88, 8};
inline constexpr CapField log_max_qp{0x9b, 5};
inline constexpr CapField log_max_cq_sz{0xc8, 8};
inline constexpr CapField log_max_cq{0xdb, 5};
inline constexpr CapField log_max_mkey{0xea, 6};
inline constexpr CapField dump_fill_mkey{0xf8, 1};  // reads give zeros, writes are discarded
inline constexpr CapField flow_counter_bulk_alloc{0x310, 8};  // sizes: 128 << n
inline constexpr CapField max_indirection{0x100, 8};
inline constexpr CapField fixed_buffer_size{0x108, 1};  // keys may have entries of one size (KSM)
inline constexpr CapField umr_extended_translation_offset{0x118, 1};
inline constexpr CapField log_max_klm_list_size{0x11a, 6};
inline constexpr CapField qpc_extension{0x122, 1};
inline constexpr CapField log_max_ra_req_dc{0x12a, 6};
inline constexpr CapField log_max_ra_res_dc{0x13a, 6};
inline constexpr CapField log_max_bsf_list_size{0x112, 6};
inline constexpr CapField sig_crc64_xp10{0x147, 1};
inline constexpr CapField sig_crc32c{0x148, 1};
inline constexpr CapField log_max_ra_req_qp{0x14a, 6};
inline constexpr CapField log_max_ra_res_qp{0x15a, 6};
inline constexpr CapField rts2rts_qp_udp_sport{0x151, 1};
inline constexpr CapField dma_mmo_sq{0x153, 1};
inline constexpr CapField gid_table_size{0x170, 16};
inline constexpr CapField device_memory{0x1a8, 1};
inline constexpr CapField port_type{0x1b6, 2};
inline constexpr CapField num_ports{0x1b8, 8};
inline constexpr CapField log_max_msg{0x1c3, 5};
inline constexpr CapField sig_block_4048{0x1f0, 1};
inline constexpr CapField cqe_version{0x1fc, 4};
inline constexpr CapField repeated_block_disabled{0x206, 1};
inline constexpr CapField umr_modify_entity_size_disabled{0x207, 1};
inline constexpr CapField umr_modify_atomic_disabled{0x208, 1};
inline constexpr CapField umr_indirect_mkey_disabled{0x209, 1};
inline constexpr CapField umr_fence{0x20a, 2};  // 0 strong, 1 small, 2 none
inline constexpr CapField dc_req_sctr_data_cqe{0x20c, 1};
inline constexpr CapField sctr_data_cqe{0x215, 1};
inline constexpr CapField dct{0x21a, 1};
inline constexpr CapField sho{0x217, 1};  // signature handover: keys whose blocks are signed
inline constexpr CapField eth_net_offloads{0x21c, 1};
inline constexpr CapField roce{0x21d, 1};
inline constexpr CapField atomic{0x21e, 1};
inline constexpr CapField cq_resize{0x221, 1};
inline constexpr CapField cq_moderation{0x222, 1};
inline constexpr CapField pg{0x227, 1};  // page faults can be reported
inline constexpr CapField block_lb_mc{0x228, 1};
inline constexpr CapField umr_ptr_rlkey{0x230, 1};
inline constexpr CapField xrc{0x23c, 1};
inline constexpr CapField ud{0x23d, 1};
inline constexpr CapField uc{0x23e, 1};
inline constexpr CapField rc{0x23f, 1};
inline constexpr CapField uar_4k{0x240, 1};
inline constexpr CapField max_wqe_sz_sq{0x290, 16};
inline constexpr CapField max_wqe_sz_rq{0x2b0, 16};
inline constexpr CapField log_max_transport_domain{0x323, 5};
inline constexpr CapField log_max_rq{0x363, 5};
inline constexpr CapField log_max_sq{0x36b, 5};
inline constexpr CapField log_max_tir{0x373, 5};
inline constexpr CapField log_max_tis{0x37b, 5};
inline constexpr CapField log_max_rmp{0x383, 5};
inline constexpr CapField log_max_rqt{0x38b, 5};
inline constexpr CapField log_max_rqt_size{0x393, 5};
inline constexpr CapField log_max_tis_per_sq{0x39b, 5};
inline constexpr CapField ext_stride_num_range{0x3a0, 1};
inline constexpr CapField log_min_stride_sz_rq{0x3ab, 5};
inline constexpr CapField log_min_stride_sz_sq{0x3bb, 5};
inline constexpr CapField log_max_wq_sz{0x3db, 5};
// The number of the first data unit in a crypto BSF: the lowest byte first, for one unit; the
// highest byte first, for any number.
inline constexpr CapField aes_xts_single_block_le_tweak{0x3f1, 1};
inline constexpr CapField aes_xts_multi_block_be_tweak{0x3f2, 1};
inline constexpr CapField general_obj_types_high{0x400, 32};
inline constexpr CapField general_obj_types_low{0x420, 32};
inline constexpr CapField steering_format_version{0x444, 4};  // 0: a ConnectX-5's
inline constexpr CapField aes_xts{0x468, 1};                  // DPDK drivers/common/mlx5/mlx5_prm.h
inline constexpr CapField crypto{0x469, 1};
inline constexpr CapField sigerr_domain_and_sig_type{0x480, 1};
inline constexpr CapField device_frequency_khz{0x4e0, 32};
inline constexpr CapField log_max_atomic_size_qp{0x580, 8};
inline constexpr CapField log_max_dci_stream_channels{0x58b, 5};
inline constexpr CapField log_max_dci_errored_streams{0x593, 5};
inline constexpr CapField log_max_atomic_size_dc{0x598, 8};
inline constexpr CapField cqe_compression{0x5bf, 1};
inline constexpr CapField cqe_compression_max_num{0x5d0, 16};
inline constexpr CapField tag_matching{0x5f0, 1};
inline constexpr CapField rndv_offload_rc{0x5f1, 1};
inline constexpr CapField log_tag_matching_list_sz{0x5f3, 5};
inline constexpr CapField log_max_xrq{0x5fb, 5};
}  // namespace hca_cap

// The second general group (cmd::cap_general_2; mlx5_ifc_cmd_hca_cap_2_bits).
namespace hca_cap_2 {
inline constexpr CapField log_reserved_qpn_granularity{0x93, 5};
}  // namespace hca_cap_2

// The group of encryption (mlx5_ifc_crypto_caps_bits). All others zero: keys come in plain text.
namespace crypto_cap {
inline constexpr CapField log_max_num_deks{0x2b, 5};
}  // namespace crypto_cap

// The group of Ethernet offloads ("Ethernet Offload Capabilities", cmd::cap_ethernet; Linux struct
// mlx5_ifc_per_protocol_networking_offload_caps_bits).
namespace eth_cap {
inline constexpr CapField csum_cap{0x00, 1};
inline constexpr CapField vlan_cap{0x01, 1};
inline constexpr CapField wqe_vlan_insert{0x07, 1};
inline constexpr CapField max_lso_cap{0x0b, 5};  // log2 of bytes
inline constexpr CapField multi_pkt_send_wqe{0x10, 2};
inline constexpr CapField wqe_inline_mode{0x12, 2};  // 0 L2, 1 by the port's context, 2 none
inline constexpr CapField scatter_fcs{0x19, 1};
inline constexpr CapField enhanced_multi_pkt_send_wqe{0x1a, 1};
// Inner headers of tunnels; headers whose place the WQE says (mlx5_ifc.h,
// per_protocol_networking_offload_caps_bits; DPDK mlx5_prm.h alike).
inline constexpr CapField tunnel_lro_gre{0x1c, 1}, tunnel_lro_vxlan{0x1d, 1};
inline constexpr CapField tunnel_stateless_gre{0x1e, 1};
inline constexpr CapField tunnel_stateless_vxlan{0x1f, 1};
inline constexpr CapField swp{0x20, 1};
inline constexpr CapField swp_csum{0x21, 1};
inline constexpr CapField swp_lso{0x22, 1};
inline constexpr CapField max_vxlan_udp_ports{0x30, 8};
// Large receives. lro_max_msg_sz_mode: 0 the limit is of TCP's header and payload, 1 of the whole
// frame (MLX5_LRO_MAX_MSG_SIZE_START_FROM_L4, _L2 of DPDK mlx5_prm.h).
inline constexpr CapField lro_cap{0x02, 1};
inline constexpr CapField lro_psh_flag{0x03, 1};
inline constexpr CapField lro_max_msg_sz_mode{0x05, 2};
inline constexpr CapField lro_min_mss_size{0x50, 16};
inline constexpr CapField lro_timer_supported_periods[4] = {
    {0x180, 32}, {0x1a0, 32}, {0x1c0, 32}, {0x1e0, 32}};  // us
}  // namespace eth_cap

// The group of flow tables (cmd::cap_nic_flow): headers that rules put in front of frames, in the
// receiving and in the sending table (mlx5_ifc.h, flow_table_nic_cap_bits, flow_table_prop_layout).
namespace flow_cap {
inline constexpr CapField encap_general_header{0x20, 1};
inline constexpr CapField log_max_packet_reformat{0x2b, 5};
inline constexpr CapField max_encap_header_size{0x36, 10};
inline constexpr CapField rx_ft_support{0x200, 1}, rx_reformat{0x207, 1};
inline constexpr CapField tx_ft_support{0x800, 1}, tx_reformat{0x807, 1};
}  // namespace flow_cap

// The context of a port (QUERY_NIC_VPORT_CONTEXT; Linux struct mlx5_ifc_nic_vport_context_bits).
namespace nic_vport {
inline constexpr std::size_t context_bytes = 256;
inline constexpr CapField min_wqe_inline_mode{0x05, 3};  // 0 none, 1 L2, 2 IP, 3 TCP or UDP
inline constexpr CapField roce_en{0x1f, 1};
}  // namespace nic_vport

// The atomic group ("Atomic Capabilities", cmd::cap_atomic).
namespace atomic_cap {
inline constexpr CapField request_8b_mode_1{0x46, 1};  // operands of 8 bytes in the host's order
inline constexpr CapField operations{0x90, 16};        // bit 0 compare and swap, 1 fetch and add
inline constexpr CapField size_qp{0xb0, 16};           // bit n: 2^n bytes
inline constexpr CapField size_dc{0xd0, 16};
}  // namespace atomic_cap

// The group of on-demand paging (cmd::cap_odp): a word for each transport, with bits for the
// operations that may page.
namespace odp_cap {
inline constexpr CapField rc{0x80, 32};
inline constexpr CapField uc{0xa0, 32};
inline constexpr CapField ud{0xc0, 32};
inline constexpr CapField xrc{0xe0, 32};
inline constexpr CapField dc{0x100, 32};
inline constexpr uint32_t send = 1u << 31, receive = 1u << 30, write = 1u << 29, read = 1u << 28,
                          atomic = 1u << 27, srq_receive = 1u << 26;
}  // namespace odp_cap

// The group of device memory ("Device Memory Capabilities", cmd::cap_device_memory).
namespace dm_cap {
inline constexpr CapField memic{0x00, 1};
inline constexpr CapField log_min_alloc_size{0x2b, 5};
inline constexpr CapField log_max_alignment{0x38, 8};  // in units of 64 bytes
inline constexpr CapField window_bytes{0x80, 32};      // of what can be mapped
inline constexpr CapField max_size{0xa0, 32};
inline constexpr CapField operations{0x200, 32};  // bit n: a store or load there does operation n
}  // namespace dm_cap

// The capability umr_fence: which fence a UMR WQE must carry to be ordered behind earlier WQEs of
// its queue. strong is 0, so that a group of zeroes asks for the safe one (umr/fence.hh).
enum class UmrFence : uint8_t { strong = 0, small = 1, none = 2 };

// A field of `group`, which is what QUERY_HCA_CAP returns behind its 16-byte header. 0: the group
// is too short to have the field.
constexpr uint32_t cap_get(std::span<const std::byte> group, CapField f) noexcept {
  std::size_t dword = f.bit / 32 * 4;
  if (dword + 4 > group.size()) return 0;
  uint32_t word = 0;
  for (std::size_t i = 0; i < 4; i++) word = word << 8 | static_cast<uint32_t>(group[dword + i]);
  unsigned low = 32u - f.bit % 32u - f.width;
  return static_cast<uint32_t>(word >> low & ((uint64_t{1} << f.width) - 1));
}

// Writes a field of `group`; nothing if the group is too short. For the virtual device and tests.
constexpr void cap_set(std::span<std::byte> group, CapField f, uint32_t value) noexcept {
  std::size_t dword = f.bit / 32 * 4;
  if (dword + 4 > group.size()) return;
  uint32_t word = 0;
  for (std::size_t i = 0; i < 4; i++) word = word << 8 | static_cast<uint32_t>(group[dword + i]);
  unsigned low = 32u - f.bit % 32u - f.width;
  auto mask = static_cast<uint32_t>(((uint64_t{1} << f.width) - 1) << low);
  word = (word & ~mask) | (value << low & mask);
  for (std::size_t i = 0; i < 4; i++)
    group[dword + i] = static_cast<std::byte>(word >> (24 - 8 * i));
}

}  // namespace kilim::inline v1::prm
