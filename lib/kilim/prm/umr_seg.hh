// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Control Segment", "Memory Key Context Segment", "KLM", "Repeat Block".
// A UMR WQE is, in bytes: control 16 | UMR control 48 | mkey context 64 | an inline list, or one
// pointer segment | BSFs. Names: mlx5_wqe_umr_ctrl_seg and the structures behind it in mlx5dv.h.
// Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/field.hh"

namespace kilim::inline v1::prm {

struct UmrCtrlSeg {
  uint8_t flags;  // umr::inline_list ...
  uint8_t rsvd0[3];
  be16 klm_octowords;             // of the list, padded to whole granules of 64 bytes
  be16 translation_offset;        // in octowords; shares its word with bsf_octowords
  be64 mkey_mask;                 // which fields of the mkey context this WQE changes
  be32 translation_offset_47_16;  // where the adapter has the extended offset
  uint8_t rsvd1[28];
};
static_assert(sizeof(UmrCtrlSeg) == 48 && offsetof(UmrCtrlSeg, mkey_mask) == 8 &&
              offsetof(UmrCtrlSeg, translation_offset_47_16) == 16);

namespace umr {
// Bits of UmrCtrlSeg::flags.
inline constexpr uint8_t inline_list = 1 << 7;  // the list is in the WQE, else a pointer to it
inline constexpr uint8_t check_free = 1 << 6;   // fails if the key is free
inline constexpr uint8_t check_not_free =
    1 << 5;  // fails if the key is not free (rdma-core: CHECK_FREE)
inline constexpr uint8_t has_translation_offset = 1 << 4;  // translation_offset counts
inline constexpr uint8_t check_qpn = 1 << 3;  // fails if the key belongs to another queue pair

// Bits of UmrCtrlSeg::mkey_mask: the field of the mkey context that the WQE changes.
inline constexpr uint64_t mask_len = 1ull << 0;
inline constexpr uint64_t mask_page_size = 1ull << 1;  // also the size of fixed entries
inline constexpr uint64_t mask_start_addr = 1ull << 6;
inline constexpr uint64_t mask_sig_err = 1ull << 9;
inline constexpr uint64_t mask_bsf_enable = 1ull << 12;
inline constexpr uint64_t mask_mkey = 1ull << 13;
inline constexpr uint64_t mask_qpn = 1ull << 14;
inline constexpr uint64_t mask_local_write = 1ull << 18;
inline constexpr uint64_t mask_remote_read = 1ull << 19;
inline constexpr uint64_t mask_remote_write = 1ull << 20;
inline constexpr uint64_t mask_atomic = 1ull << 21;
inline constexpr uint64_t mask_free = 1ull << 29;
inline constexpr uint64_t mask_access =
    mask_local_write | mask_remote_read | mask_remote_write | mask_atomic;

inline constexpr uint32_t granule_bytes = 64;     // a list is padded to, and patched in, granules
inline constexpr uint32_t list_alignment = 2048;  // of a list by pointer
inline constexpr uint32_t max_list_octowords = 65532;  // of one WQE: 16 bits, whole granules
// A longer list takes several WQEs. Each but the last writes this many octowords, so that the part
// of the next one begins at a multiple of list_alignment.
inline constexpr uint32_t chained_list_octowords = 65408;
static_assert(chained_list_octowords * 16 % list_alignment == 0);
inline constexpr uint64_t max_piece_bytes = 1ull << 31;  // one KLM spans at most this much
}  // namespace umr

// The mkey context in a UMR WQE. Only fields that mkey_mask names are read.
struct MkeyContextSeg {
  uint8_t free;  // mkey::free, or 0
  uint8_t reserved1;
  uint8_t access_flags;  // mkey::local_read ...
  uint8_t sf;
  be32 qpn_mkey;  // 31:8 QPN that may use the key, 7:0 the key's tag
  be32 reserved2;
  be32 flags_pd;  // 31 length64, 30 bsf_enable, 23:0 protection domain
  be64 start_addr;
  be64 len;
  be32 bsf_octword_size;
  be32 reserved3[4];
  be32 translations_octword_size;
  uint8_t reserved4[3];
  uint8_t log_page_size;  // of a KSM key: log2 of an entry's bytes
  be32 reserved;
};
static_assert(sizeof(MkeyContextSeg) == 64 && offsetof(MkeyContextSeg, start_addr) == 16 &&
              offsetof(MkeyContextSeg, translations_octword_size) == 52);

namespace mkey {
using qpn = Field<&MkeyContextSeg::qpn_mkey, 31, 8>;  // 0xffffff: any queue
using tag = Field<&MkeyContextSeg::qpn_mkey, 7, 0>;
using pd = Field<&MkeyContextSeg::flags_pd, 23, 0>;
inline constexpr uint32_t any_qpn = 0xffffff;  // every queue pair of the domain may use the key
inline constexpr uint8_t free = 1 << 6;        // the key gives no access

// access_flags
inline constexpr uint8_t local_read = 1 << 2;
inline constexpr uint8_t local_write = 1 << 3;
inline constexpr uint8_t remote_read = 1 << 4;
inline constexpr uint8_t remote_write = 1 << 5;
inline constexpr uint8_t atomic = 1 << 6;
inline constexpr uint8_t umr_en = 1 << 7;
}  // namespace mkey

// One entry of an indirect key's list.
struct Klm {
  be32 byte_count;  // 0: 2^31 bytes; an entry of zeroes only is padding
  be32 mkey;        // under which the memory is registered or bound
  be64 address;     // as `mkey` counts
};
static_assert(sizeof(Klm) == 16 && offsetof(Klm, address) == 8);

// One entry of a key with fixed-size entries.
struct Ksm {
  be32 reserved;  // the kernel's fault handler reads it as byte_count (umr/fixed.hh)
  be32 mkey;
  be64 address;
};
static_assert(sizeof(Ksm) == 16);

// Header of a strided list. `op` is in the place of a KLM's mkey and tells the two lists apart.
struct RepeatBlockSeg {
  be32 byte_count;  // of one repetition
  be32 op;
  be32 repeat_count;  // repetitions
  be16 reserved;
  be16 num_ent;  // entries behind the header
};
static_assert(sizeof(RepeatBlockSeg) == 16);
inline constexpr uint32_t repeat_block_op = 0x400;

// One entry of a strided list: a block of byte_count bytes in each repetition.
struct RepeatEntSeg {
  be16 stride;  // bytes from a block to that of the next repetition
  be16 byte_count;
  be32 memkey;
  be64 va;
};
static_assert(sizeof(RepeatEntSeg) == 16);

}  // namespace kilim::inline v1::prm
