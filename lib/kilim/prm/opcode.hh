// SPDX-License-Identifier: BSD-3-Clause
// PRM: "WQE Opcodes", "CQE Opcodes". The numbers are MLX5_OPCODE_* and MLX5_CQE_* of mlx5dv.h, that
// of enhanced_mpsw of Linux include/linux/mlx5/device.h. Pure values, any thread.
#pragma once

#include <array>
#include <cstdint>

namespace kilim::inline v1::prm {

enum class Opcode : uint8_t {
  nop = 0x00,
  send_inval = 0x01,
  rdma_write = 0x08,
  rdma_write_imm = 0x09,
  send = 0x0a,
  send_imm = 0x0b,
  tso = 0x0e,
  rdma_read = 0x10,
  atomic_cs = 0x11,
  atomic_fa = 0x12,
  atomic_masked_cs = 0x14,
  atomic_masked_fa = 0x15,
  local_inval = 0x1b,
  set_psv = 0x20,
  umr = 0x25,
  tag_matching = 0x28,
  enhanced_mpsw = 0x29,
  mmo = 0x2f,
};

// One row for each opcode: its name in texts, the journal and recordings.
struct OpcodeRow {
  Opcode op;
  const char* name;
};

// clang-format off
inline constexpr OpcodeRow opcode_rows[] = {
    {Opcode::nop,              "NOP"},
    {Opcode::send_inval,       "SEND_INVAL"},
    {Opcode::rdma_write,       "RDMA_WRITE"},
    {Opcode::rdma_write_imm,   "RDMA_WRITE_IMM"},
    {Opcode::send,             "SEND"},
    {Opcode::send_imm,         "SEND_IMM"},
    {Opcode::tso,              "TSO"},
    {Opcode::rdma_read,        "RDMA_READ"},
    {Opcode::atomic_cs,        "ATOMIC_CS"},
    {Opcode::atomic_fa,        "ATOMIC_FA"},
    {Opcode::atomic_masked_cs, "ATOMIC_MASKED_CS"},
    {Opcode::atomic_masked_fa, "ATOMIC_MASKED_FA"},
    {Opcode::local_inval,      "LOCAL_INVAL"},
    {Opcode::set_psv,          "SET_PSV"},
    {Opcode::umr,              "UMR"},
    {Opcode::tag_matching,     "TAG_MATCHING"},
    {Opcode::enhanced_mpsw,    "ENHANCED_MPSW"},
    {Opcode::mmo,              "MMO"},
};
// clang-format on

// The name of an opcode; nullptr: no row has it.
constexpr const char* opcode_name(uint8_t op) noexcept {
  for (const OpcodeRow& row : opcode_rows) {
    if (static_cast<uint8_t>(row.op) == op) return row.name;
  }
  return nullptr;
}

// req: a send WQE completed. resp_*: a receive did. no_packet: a tag list operation of an XRQ,
// which no packet belongs to.
enum class CqeOpcode : uint8_t {
  req = 0,
  resp_wr_imm = 1,
  resp_send = 2,
  resp_send_imm = 3,
  resp_send_inv = 4,
  resize_cq = 5,
  no_packet = 6,
  sig_err = 12,
  req_err = 13,
  resp_err = 14,
  invalid = 15,
};

}  // namespace kilim::inline v1::prm
