// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Byte Stream Format", "Protection Signature Value", "Signature Error CQE". The descriptor
// behind the list of a UMR WQE that says how blocks of data are signed in memory and on the wire;
// the segment of SET_PSV, which gives a signature its initial value; and the CQE of a signature
// error. Debian installs no header with these formats: test/golden compares them with what libmlx5
// writes. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/field.hh"

namespace kilim::inline v1::prm {

// How one domain (memory or wire) uses T10-DIF, the eight bytes behind each block: guard,
// application tag, reference tag.
struct BsfInline {
  be16 valid_refresh;  // bsf::valid, bsf::refresh
  be16 app_tag;
  be32 ref_tag;
  uint8_t guard_type;   // bsf::guard_crc or bsf::guard_checksum
  uint8_t repeat_seed;  // bsf::repeat_block, bsf::seed_ones
  uint8_t rsvd[3];
  uint8_t checks;  // bsf::count_ref_tag, and one of the two escapes or none
  be16 app_mask;   // which bits of an application tag are checked
};
static_assert(sizeof(BsfInline) == 16 && offsetof(BsfInline, checks) == 13);

// A BSF with the extended and the inline section.
struct Bsf {
  uint8_t size_sbs;    // 7:6 size (bsf::size_*), 4 both domains have the same blocks
  uint8_t check_mask;  // which bytes of a signature are checked
  uint8_t wire_block;  // size of a block; with bsf::same_blocks the mask of bytes to copy
  uint8_t mem_block;   // bsf::block_512 ...: bytes of data in a block
  be32 raw_data_size;  // bytes of data; bsf::any_raw_size: not limited
  be32 wire_format;    // 31:24 format of CRC blocks, 23:0 PSV
  be32 mem_format;
  // Extended section: one signature over a whole message (a transaction) instead of each block.
  be32 init_size, epilogue_size;
  be32 wire_transaction, mem_transaction;
  BsfInline wire, mem;
};
static_assert(sizeof(Bsf) == 64 && offsetof(Bsf, wire_format) == 8 && offsetof(Bsf, wire) == 32);

namespace bsf {
using wire_format = Field<&Bsf::wire_format, 31, 24>;
using wire_psv = Field<&Bsf::wire_format, 23, 0>;
using mem_format = Field<&Bsf::mem_format, 31, 24>;
using mem_psv = Field<&Bsf::mem_format, 23, 0>;
using wire_transaction_format = Field<&Bsf::wire_transaction, 31, 24>;
using wire_transaction_psv = Field<&Bsf::wire_transaction, 23, 0>;
using mem_transaction_format = Field<&Bsf::mem_transaction, 31, 24>;
using mem_transaction_psv = Field<&Bsf::mem_transaction, 23, 0>;

inline constexpr uint32_t octowords = 4;  // of a Bsf
inline constexpr uint8_t size_extended = 1 << 6, size_with_inline = 2 << 6, size_mask = 3 << 6;
inline constexpr uint8_t same_blocks = 1 << 4;
inline constexpr uint32_t any_raw_size = ~0u;

// Formats of CRC blocks, in the high bits; bits 1 and 0 are flags.
inline constexpr uint8_t crc32 = 0x20, crc32c = 0x40, crc64_xp10 = 0x50;
inline constexpr uint8_t format_mask = 0xfc;
inline constexpr uint8_t repeat = 0x2;     // a signature behind each block
inline constexpr uint8_t zero_seed = 0x1;  // the CRC begins with 0, else with all ones

// Bits of Bsf::init_size. begins: the transaction's signature starts with the format's seed.
// checks: the signature follows the data, where it is generated or checked. SPDK
// lib/mlx5/mlx5_umr.c, MLX5_SIG_BSF_EXT_*.
inline constexpr uint32_t mem_checks = 1u << 24, mem_begins = 1u << 25;
inline constexpr uint32_t wire_checks = 1u << 28, wire_begins = 1u << 29;

// Values of wire_block and mem_block: bytes of data in a block.
inline constexpr uint8_t block_512 = 1, block_520 = 2, block_4096 = 3, block_4160 = 4,
                         block_4048 = 6;

// BsfInline::valid_refresh (MLX5_BSF_INL_VALID, MLX5_BSF_REFRESH_DIF, Linux
// include/linux/mlx5/qp.h).
inline constexpr uint16_t valid = 1 << 15, refresh = 1 << 14;
// BsfInline::guard_type: T10's CRC-16, or the IP checksum.
inline constexpr uint8_t guard_crc = 1, guard_checksum = 2;
// BsfInline::repeat_seed: a signature behind each block; the guard begins with all ones.
inline constexpr uint8_t repeat_block = 1 << 7;
inline constexpr uint8_t seed_ones = 1 << 3;
// BsfInline::checks: the reference tag grows by one with each block; a block is not checked if its
// application tag is all ones, or if the reference tag is so too.
inline constexpr uint8_t count_ref_tag = 1 << 6;
inline constexpr uint8_t app_escape = 1, app_ref_escape = 2;

// Bits of check and copy masks, one for each byte of a signature: bit 7 is its first byte.
inline constexpr uint8_t guard_bytes = 0xc0, app_tag_bytes = 0x30, ref_tag_bytes = 0x0f;
}  // namespace bsf

// What follows the control segment of SET_PSV.
struct SetPsvSeg {
  be32 psv;  // number of the PSV, as CREATE_PSV returned it
  be16 syndrome;
  uint8_t rsvd[2];
  be64 signature;  // T10-DIF as it lies on the wire; a CRC's seed in its highest bytes
};
static_assert(sizeof(SetPsvSeg) == 16 && offsetof(SetPsvSeg, signature) == 8);

// Bits of flags_pd in the mkey context.
namespace mkey {
inline constexpr uint32_t bsf_enable = 1u << 30;
inline constexpr uint32_t sig_err_count = 1u << 26;  // lowest bit of the count of errors
}  // namespace mkey

// The CQE with opcode 12: a block's signature was wrong. It is about a key and completes no WQE.
struct SigErrCqe {
  uint8_t rsvd0[16];
  be32 expected_high, actual_high;  // the signature in the block, and the computed one
  be32 expected_low, actual_low;
  be16 syndrome;   // which part is wrong: sig_err::guard, app_tag or ref_tag
  uint8_t type;    // sig_err::block or transaction
  uint8_t domain;  // sig_err::wire or memory
  be32 mkey;
  be64 offset;  // bytes from the start of the domain to the block
  uint8_t rsvd1[14];
  uint8_t signature;
  uint8_t op_own;
};
static_assert(sizeof(SigErrCqe) == 64 && offsetof(SigErrCqe, syndrome) == 32 &&
              offsetof(SigErrCqe, offset) == 40 && offsetof(SigErrCqe, op_own) == 63);

namespace sig_err {
inline constexpr uint16_t ref_tag = 1 << 11, app_tag = 1 << 12, guard = 1 << 13;
inline constexpr uint8_t block = 0, transaction = 1;  // SigErrCqe::type
inline constexpr uint8_t wire = 0, memory = 1;        // SigErrCqe::domain
}  // namespace sig_err

}  // namespace kilim::inline v1::prm
