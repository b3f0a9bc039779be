// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Byte Stream Format", "Protection Signature Value", "Signature Error CQE". What a UMR WQE
// says behind its list of how blocks of data are signed in memory and on the wire, and the WQE that
// sets where a signature begins. Debian installs no header for it: test/golden compares it with
// what libmlx5 writes. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/be.hh"
#include "kilim/base/field.hh"

namespace kilim::prm {

// The T10-DIF of one domain.
struct BsfInline {
  be16 valid_refresh;
  be16 app_tag;
  be32 ref_tag;
  uint8_t guard_type;
  uint8_t repeat_seed;
  uint8_t rsvd[3];
  uint8_t checks;
  be16 app_mask;  // which bits of an application tag are checked
};
static_assert(sizeof(BsfInline) == 16 && offsetof(BsfInline, checks) == 13);

struct Bsf {
  uint8_t size_sbs;  // 7:6 size, 4 both domains have the same blocks
  uint8_t check_mask;
  uint8_t wire_block;  // copy mask where the blocks are the same
  uint8_t mem_block;
  be32 raw_data_size;
  be32 wire_format;  // 31:24 format, 23:0 PSV
  be32 mem_format;
  // The extended section: of transactions.
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

inline constexpr uint32_t octowords = 4;
inline constexpr uint8_t size_extended = 1 << 6, size_with_inline = 2 << 6, size_mask = 3 << 6;
inline constexpr uint8_t same_blocks = 1 << 4;
inline constexpr uint32_t any_raw_size = ~0u;

// Formats of CRC blocks; bits 1 and 0 are flags.
inline constexpr uint8_t crc32 = 0x20, crc32c = 0x40, crc64_xp10 = 0x50;
inline constexpr uint8_t format_mask = 0xfc;
inline constexpr uint8_t repeat = 0x2;
inline constexpr uint8_t zero_seed = 0x1;  // else all ones

// Bsf::init_size: whether a transaction begins with the format's seed, and whether its signature
// follows the data (is generated, or checked). SPDK lib/mlx5/mlx5_umr.c, MLX5_SIG_BSF_EXT_*.
inline constexpr uint32_t mem_checks = 1u << 24, mem_begins = 1u << 25;
inline constexpr uint32_t wire_checks = 1u << 28, wire_begins = 1u << 29;

// Sizes of blocks.
inline constexpr uint8_t block_512 = 1, block_520 = 2, block_4096 = 3, block_4160 = 4,
                         block_4048 = 6;

// BsfInline::valid_refresh
inline constexpr uint16_t valid = 1 << 15, refresh = 1 << 14;
// guard_type
inline constexpr uint8_t guard_crc = 1, guard_checksum = 2;
// repeat_seed
inline constexpr uint8_t repeat_block = 1 << 7;
inline constexpr uint8_t seed_ones = 1 << 3;
// checks
inline constexpr uint8_t count_ref_tag = 1 << 6;
inline constexpr uint8_t app_escape = 1, app_ref_escape = 2;

// Bits of check and copy masks: the highest is the highest byte of the signature.
inline constexpr uint8_t guard_bytes = 0xc0, app_tag_bytes = 0x30, ref_tag_bytes = 0x0f;
}  // namespace bsf

// The WQE SET_PSV behind its control segment.
struct SetPsvSeg {
  be32 psv;
  be16 syndrome;
  uint8_t rsvd[2];
  be64 signature;  // T10-DIF as it lies on the wire; a CRC's seed in its highest bytes
};
static_assert(sizeof(SetPsvSeg) == 16 && offsetof(SetPsvSeg, signature) == 8);

// Of the mkey context: flags_pd.
namespace mkey {
inline constexpr uint32_t bsf_enable = 1u << 30;
inline constexpr uint32_t sig_err_count = 1u << 26;  // lowest bit of the count of errors
}  // namespace mkey

// CQE 12: a block whose signature was wrong. It belongs to no WQE.
struct SigErrCqe {
  uint8_t rsvd0[16];
  be32 expected_high, actual_high;
  be32 expected_low, actual_low;
  be16 syndrome;
  uint8_t type;
  uint8_t domain;
  be32 mkey;
  be64 offset;  // of the block in its domain
  uint8_t rsvd1[14];
  uint8_t signature;
  uint8_t op_own;
};
static_assert(sizeof(SigErrCqe) == 64 && offsetof(SigErrCqe, syndrome) == 32 &&
              offsetof(SigErrCqe, offset) == 40 && offsetof(SigErrCqe, op_own) == 63);

namespace sig_err {
inline constexpr uint16_t ref_tag = 1 << 11, app_tag = 1 << 12, guard = 1 << 13;
inline constexpr uint8_t block = 0, transaction = 1;  // type
inline constexpr uint8_t wire = 0, memory = 1;
}  // namespace sig_err

}  // namespace kilim::prm
