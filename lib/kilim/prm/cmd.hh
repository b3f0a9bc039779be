// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Command Interface". The frame of a command's input and output, opcodes and status codes.
// Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/be.hh"

namespace kilim::prm {

struct CmdInHdr {
  be16 opcode;
  be16 uid;
  be16 reserved;
  be16 op_mod;
};
static_assert(sizeof(CmdInHdr) == 8);

struct CmdOutHdr {
  uint8_t status;
  uint8_t reserved[3];
  be32 syndrome;
};
static_assert(sizeof(CmdOutHdr) == 8);

struct CreateMkeyOut {
  CmdOutHdr hdr;
  be32 mkey_index;  // 24 bits
  be32 reserved;
};
static_assert(sizeof(CreateMkeyOut) == 16);

namespace cmd {
inline constexpr uint16_t query_hca_cap = 0x100;
inline constexpr uint16_t create_mkey = 0x200;
inline constexpr uint16_t query_mkey = 0x201;
inline constexpr uint16_t destroy_mkey = 0x202;
inline constexpr uint16_t qp_2err = 0x507;
inline constexpr uint16_t qp_2rst = 0x50a;
inline constexpr uint16_t nop = 0x80d;

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

// op_mod of QUERY_HCA_CAP: capability type << 1 | (0 maximum, 1 current)
inline constexpr uint16_t cap_general = 0;
inline constexpr uint16_t cap_odp = 2;
inline constexpr uint16_t cap_atomic = 3;
inline constexpr std::size_t hca_cap_bytes = 4096;
}  // namespace cmd

}  // namespace kilim::prm
