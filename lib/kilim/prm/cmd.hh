// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Command Interface". Headers of a command's input and output, the layouts of some commands,
// opcodes and status codes. Commands reach the device through DevX (mlx5dv_devx_general_cmd(3),
// mlx5dv_devx_obj_create(3)). Names and numbers: Linux include/linux/mlx5/mlx5_ifc.h. Pure formats,
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"

namespace kilim::inline v1::prm {

struct CmdInHdr {
  be16 opcode;  // cmd::query_hca_cap ...
  be16 uid;     // of the user context; the kernel fills it in
  be16 reserved;
  be16 op_mod;
};
static_assert(sizeof(CmdInHdr) == 8);

struct CmdOutHdr {
  uint8_t status;  // cmd::Status
  uint8_t reserved[3];
  be32 syndrome;  // of the firmware; says more than the status
};
static_assert(sizeof(CmdOutHdr) == 8);

// Commands that change or query a queue pair: byte offsets of what follows the header (the QPN, the
// mask of optional parameters, the QP context), and bits of these.
namespace qp_cmd {
inline constexpr std::size_t in_mask = 16;  // opt_param_mask
inline constexpr std::size_t in_context = 24, out_context = 24;
inline constexpr std::size_t context_bytes = 232;
inline constexpr std::size_t in_mask_95_32 = 264, in_bytes = 272;
inline constexpr uint64_t mask_dci_stream = 1 << 0, mask_udp_sport = 1 << 2;  // of in_mask_95_32
inline constexpr std::size_t in_extension = 272;        // the QP context extension
inline constexpr uint32_t has_extension = 1u << 31;     // of the word with the queue's number
inline constexpr std::size_t dci_stream = 2;            // offset within the extension
inline constexpr uint32_t mask_drain_sigerr = 1 << 11;  // of in_mask, INIT2INIT_QP
inline constexpr uint32_t drain_sigerr = 1 << 26;       // of the word with the PD
// Offsets within the QP context; behind each its bits, where it has not the whole bytes.
inline constexpr std::size_t state = 0;  // 7:4
inline constexpr std::size_t service = 1;
inline constexpr std::size_t path_migration = 2;  // 4:3
inline constexpr std::size_t pd = 4;              // 23:0
inline constexpr std::size_t mtu = 8;             // 7:5
inline constexpr std::size_t user_index = 16;     // 23:0
inline constexpr std::size_t remote_qpn = 20;     // 23:0
inline constexpr std::size_t udp_sport = 58;      // of the primary path
inline constexpr std::size_t send_cq = 124;       // 23:0
inline constexpr std::size_t sq_counter = 180;    // basic block of the next send WQE, 16 bits
}  // namespace qp_cmd

// Output of CREATE_MKEY; its input is prm/mkc.hh.
struct CreateMkeyOut {
  CmdOutHdr hdr;
  be32 mkey_index;  // 24 bits
  be32 reserved;
};
static_assert(sizeof(CreateMkeyOut) == 16);

// CREATE_PSV makes up to four protection signature values.
struct CreatePsvIn {
  CmdInHdr hdr;
  be32 count_pd;  // 31:28 how many, 23:0 the protection domain
  be32 reserved;
};
static_assert(sizeof(CreatePsvIn) == 16);
struct CreatePsvOut {
  CmdOutHdr hdr;
  be32 reserved[2];
  be32 psv[4];  // 24 bits each
};
static_assert(sizeof(CreatePsvOut) == 32);

namespace cmd {
inline constexpr uint16_t query_hca_cap = 0x100;
inline constexpr uint16_t create_mkey = 0x200;
inline constexpr uint16_t query_mkey = 0x201;
inline constexpr uint16_t destroy_mkey = 0x202;
inline constexpr uint16_t create_qp = 0x500;
inline constexpr uint16_t qp_rts2rts = 0x505;
inline constexpr uint16_t qp_2err = 0x507;
inline constexpr uint16_t qp_2rst = 0x50a;
inline constexpr uint16_t query_qp = 0x50b;
inline constexpr uint16_t qp_init2init = 0x50e;
inline constexpr uint16_t create_psv = 0x600;
inline constexpr uint16_t destroy_psv = 0x601;
inline constexpr uint16_t query_nic_vport_context = 0x754;
inline constexpr uint16_t alloc_pd = 0x800;
inline constexpr uint16_t dealloc_pd = 0x801;
inline constexpr uint16_t nop = 0x80d;
inline constexpr uint16_t create_general_object = 0xa00;
inline constexpr uint16_t query_lag = 0x842;
inline constexpr uint16_t query_general_object = 0xa02;
inline constexpr uint16_t destroy_general_object = 0xa03;

// General objects: the object type is in the place of CmdInHdr::op_mod.
inline constexpr uint16_t object_dek = 0xc, object_crypto_login = 0x1f;
// Numbers for queue pairs that nobody makes (mlx5dv_reserved_qpn_alloc(3)); how many stands in the
// low five bits of this byte, as a logarithm (general_obj_in_cmd_hdr, log_obj_range).
inline constexpr uint16_t object_reserved_qpn = 0x2c;
inline constexpr std::size_t log_obj_range = 12, reserved_qpn_bytes = 32;
inline constexpr uint16_t object_av_qp_mapping = 0x3a;  // mlx5dv_map_ah_to_qp(3)
inline constexpr std::size_t av_qp_mapping_qpn = 28, av_qp_mapping_bytes = 80;

// MLX5_CMD_STAT_* of Linux include/linux/mlx5/device.h.
enum class Status : uint8_t {
  ok = 0x00,
  internal_err = 0x01,
  bad_op = 0x02,
  bad_param = 0x03,
  bad_sys_state = 0x04,
  bad_resource = 0x05,
  resource_busy = 0x06,
  exceed_lim = 0x08,
  bad_res_state = 0x09,
  bad_index = 0x0a,
  no_resources = 0x0f,
  bad_input_len = 0x50,
  bad_output_len = 0x51,
};

// Capability groups of QUERY_HCA_CAP; its op_mod is group << 1 | 1 for the current values, | 0 for
// the maximal ones.
inline constexpr uint16_t cap_general = 0;
inline constexpr uint16_t cap_ethernet = 1, cap_nic_flow = 7;
inline constexpr uint16_t cap_odp = 2;
inline constexpr uint16_t cap_atomic = 3;
inline constexpr uint16_t cap_device_memory = 0xf;
inline constexpr uint16_t cap_crypto = 0x1a;
inline constexpr uint16_t cap_general_2 = 0x20;
inline constexpr std::size_t hca_cap_bytes = 4096;
}  // namespace cmd

}  // namespace kilim::inline v1::prm
