// SPDX-License-Identifier: BSD-3-Clause
// PRM: "QP Context", "Address Path", "CREATE_QP", "RST2INIT_QP", "INIT2RTR_QP", "RTR2RTS_QP",
// "CREATE_XRQ": the fields that DevX clients write, with the PRM's names and bit offsets. Source:
// rdma-core v44 providers/mlx5/mlx5_ifc.h (struct mlx5_ifc_qpc_bits, mlx5_ifc_ads_bits); places of
// the commands are in prm/cmd.hh (qp_cmd). Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/prm/hca_cap.hh"

namespace kilim::inline v1::prm {

// CREATE_QP, behind the context.
namespace create_qp_in {
inline constexpr std::size_t bytes = 272;
inline constexpr CapField extension{0x40, 1};       // a context of more fields follows
inline constexpr std::size_t wq_umem_offset = 256;  // 64 bits
inline constexpr CapField wq_umem_id{0x840, 32};
inline constexpr CapField wq_umem_valid{0x860, 1};
}  // namespace create_qp_in

namespace qpc {
inline constexpr CapField state{0x00, 4};
inline constexpr CapField pm_state{0x13, 2};  // path migration
inline constexpr CapField st{0x08, 8};        // service: 0 RC, 1 UC, 2 UD, 5 DC initiator
inline constexpr CapField pd{0x28, 24};
inline constexpr CapField mtu{0x40, 3};
inline constexpr CapField log_msg_max{0x43, 5};
inline constexpr CapField log_rq_size{0x49, 4};
inline constexpr CapField log_rq_stride{0x4d, 3};  // 16 bytes << this
inline constexpr CapField no_sq{0x50, 1};
inline constexpr CapField log_sq_size{0x51, 4};
inline constexpr CapField uar_page{0x68, 24};
inline constexpr CapField user_index{0x88, 24};
inline constexpr CapField remote_qpn{0xa8, 24};
inline constexpr std::size_t primary_address_path = 24, address_path_bytes = 44;
inline constexpr CapField log_sra_max{0x388, 3};
inline constexpr CapField retry_count{0x38d, 3};
inline constexpr CapField rnr_retry{0x390, 3};
inline constexpr CapField next_send_psn{0x3c8, 24};
inline constexpr CapField cqn_snd{0x3e8, 24};
inline constexpr CapField log_rra_max{0x488, 3};
inline constexpr CapField rre{0x490, 1}, rwe{0x491, 1}, rae{0x492, 1};
inline constexpr CapField min_rnr_nak{0x4a3, 5};
inline constexpr CapField drain_sigerr{0x25, 1};
inline constexpr CapField hw_sq_wqebb_counter{0x5a0, 16};
inline constexpr CapField next_rcv_psn{0x4a8, 24};
inline constexpr CapField cqn_rcv{0x4e8, 24};
inline constexpr std::size_t dbr_addr = 160;  // 64 bits; with dbr_umem_valid an offset
inline constexpr CapField q_key{0x540, 32};
inline constexpr CapField rq_type{0x565, 3};  // 0 of its own, 1 shared, 3 none
inline constexpr CapField srqn_rmpn_xrqn{0x568, 24};
inline constexpr CapField cs_req{0x630, 8}, cs_res{0x638, 8};
inline constexpr CapField dbr_umem_valid{0x683, 1};
inline constexpr CapField dbr_umem_id{0x720, 32};
inline constexpr uint32_t own_rq = 0, shared_rq = 1, no_rq = 3;
// cs_res, cs_req: the longest data that come in an entry, of what is received and of answers (Linux
// include/linux/mlx5/qp.h, MLX5_RES_SCAT_DATA32_CQE ...).
inline constexpr uint32_t res_32 = 0x1, res_64 = 0x2, req_32 = 0x11, req_64 = 0x22;
}  // namespace qpc

// Bits of opt_param_mask (Linux include/linux/mlx5/qp.h, MLX5_QP_OPTPAR_*).
namespace qp_optional {
inline constexpr uint32_t rre = 1 << 1, rae = 1 << 2, rwe = 1 << 3, rnr_timeout = 1 << 6;
}  // namespace qp_optional

// "Address Path".
namespace ads {
inline constexpr CapField fl{0x00, 1};  // force loopback: no address is looked at
inline constexpr CapField pkey_index{0x10, 16};
inline constexpr CapField grh{0x28, 1};
inline constexpr CapField rlid{0x30, 16};
inline constexpr CapField ack_timeout{0x40, 5};
inline constexpr CapField src_addr_index{0x48, 8};
inline constexpr CapField hop_limit{0x58, 8};
inline constexpr CapField tclass{0x64, 8};
inline constexpr CapField flow_label{0x6c, 20};
inline constexpr std::size_t rgid_rip = 16;  // 16 bytes
inline constexpr CapField udp_sport{0x110, 16};
inline constexpr CapField sl{0x124, 4};
inline constexpr CapField vhca_port_num{0x128, 8};
inline constexpr std::size_t rmac = 38;  // 6 bytes
}  // namespace ads

// "RMP Context": the work queue's lies where an RQ's does (wq_context::at).
namespace rmpc {
inline constexpr CapField state{0x08, 4};
}  // namespace rmpc

// "XRQ Context" and within it "Tag Matching Topology Context" (Linux
// include/linux/mlx5/mlx5_ifc.h, mlx5_ifc_xrqc_bits,
// mlx5_ifc_tag_matching_topology_context_bits). CREATE_XRQ and QUERY_XRQ's answer have it at the
// same place; the work queue's lies within it from byte 128 on.
namespace xrqc {
inline constexpr std::size_t at = 16, bytes = 320, command_bytes = at + bytes, wq_at = 128;
inline constexpr CapField state{0x00, 4};
inline constexpr CapField topology{0x14, 4};
inline constexpr CapField offload{0x1c, 4};
inline constexpr CapField user_index{0x28, 24};
inline constexpr CapField cqn{0x48, 24};
inline constexpr CapField dc{0x7f, 1};  // rendezvous of dynamic connections; UCX's name of the bit
inline constexpr CapField log_matching_list_sz{0x100, 4};
inline constexpr CapField append_next_index{0x110, 16};
inline constexpr CapField sw_phase_cnt{0x120, 16}, hw_phase_cnt{0x130, 16};
inline constexpr std::size_t arm_lwm = 14;  // of ARM_XRQ, 16 bits
inline constexpr uint32_t good = 0, tag_matching = 1, rendezvous = 1;
}  // namespace xrqc

// "DCT Context" (Linux include/linux/mlx5/mlx5_ifc.h, mlx5_ifc_dctc_bits).
namespace dctc {
inline constexpr std::size_t at = 16, bytes = 64, command_bytes = 80;  // of QUERY_DCT's answer too
inline constexpr CapField state{0x04, 4};                              // 0: it takes messages
inline constexpr CapField user_index{0x28, 24};
inline constexpr CapField cqn{0x48, 24};
inline constexpr CapField rre{0x6c, 1}, rwe{0x6d, 1}, rae{0x6e, 1};
inline constexpr CapField cs_res{0x88, 8};
inline constexpr CapField min_rnr_nak{0x93, 5};
inline constexpr CapField srqn_xrqn{0xa8, 24};
inline constexpr CapField pd{0xc8, 24};
inline constexpr CapField tclass{0xe0, 8}, flow_label{0xec, 20};
inline constexpr std::size_t dc_access_key = 32;  // 64 bits
inline constexpr CapField mtu{0x145, 3}, port{0x148, 8}, pkey_index{0x150, 16};
inline constexpr CapField my_addr_index{0x168, 8}, hop_limit{0x178, 8};
}  // namespace dctc

namespace cmd {
inline constexpr uint16_t create_dct = 0x710, destroy_dct = 0x711, drain_dct = 0x712;
inline constexpr uint16_t create_xrq = 0x717, destroy_xrq = 0x718, query_xrq = 0x719,
                          arm_xrq = 0x71a;
inline constexpr uint16_t query_dct = 0x713;
inline constexpr uint16_t create_rmp = 0x90c, destroy_rmp = 0x90e, query_rmp = 0x90f;
inline constexpr uint16_t destroy_qp = 0x501, qp_rst2init = 0x502, qp_init2rtr = 0x503,
                          qp_rtr2rts = 0x504;
}  // namespace cmd

}  // namespace kilim::inline v1::prm
