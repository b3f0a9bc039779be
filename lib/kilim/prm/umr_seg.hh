// SPDX-License-Identifier: BSD-3-Clause
// PRM: "UMR Control Segment", "Memory Key Context Segment", "KLM", "Repeat Block".
// A UMR WQE is: control 16 | UMR control 48 | mkey context 64 | inline list, or one pointer segment
// | BSFs. Pure formats, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/base/be.hh"
#include "kilim/base/field.hh"

namespace kilim::prm {

struct UmrCtrlSeg {
  uint8_t flags;
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
// flags
inline constexpr uint8_t inline_list = 1 << 7;
inline constexpr uint8_t check_free = 1 << 6;  // fails if the key is free
inline constexpr uint8_t check_not_free =
    1 << 5;  // fails if the key is not free (rdma-core: CHECK_FREE)
inline constexpr uint8_t has_translation_offset = 1 << 4;
inline constexpr uint8_t check_qpn = 1 << 3;

// mkey_mask
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
inline constexpr uint32_t max_list_octowords = 65532;  // of one WQE: 16 bits, granules
// A longer list takes several WQEs; each of them but the last one takes so many that the list of
// the next begins aligned.
inline constexpr uint32_t chained_list_octowords = 65408;
static_assert(chained_list_octowords * 16 % list_alignment == 0);
inline constexpr uint64_t max_piece_bytes = 1ull << 31;  // one KLM spans at most this much
}  // namespace umr

struct MkeyContextSeg {
  uint8_t free;
  uint8_t reserved1;
  uint8_t access_flags;
  uint8_t sf;
  be32 qpn_mkey;
  be32 reserved2;
  be32 flags_pd;
  be64 start_addr;
  be64 len;
  be32 bsf_octword_size;
  be32 reserved3[4];
  be32 translations_octword_size;
  uint8_t reserved4[3];
  uint8_t log_page_size;
  be32 reserved;
};
static_assert(sizeof(MkeyContextSeg) == 64 && offsetof(MkeyContextSeg, start_addr) == 16 &&
              offsetof(MkeyContextSeg, translations_octword_size) == 52);

namespace mkey {
using qpn = Field<&MkeyContextSeg::qpn_mkey, 31, 8>;  // 0xffffff: any queue
using tag = Field<&MkeyContextSeg::qpn_mkey, 7, 0>;
using pd = Field<&MkeyContextSeg::flags_pd, 23, 0>;
inline constexpr uint32_t any_qpn = 0xffffff;
inline constexpr uint8_t free = 1 << 6;

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
  be32 byte_count;
  be32 mkey;
  be64 address;
};
static_assert(sizeof(Klm) == 16 && offsetof(Klm, address) == 8);

// One entry of a key with fixed-size entries.
struct Ksm {
  be32 reserved;  // for the adapter; the kernel's fault handler takes it for the entry's length
  be32 mkey;
  be64 address;
};
static_assert(sizeof(Ksm) == 16);

// Header of a strided list; `op` lies where a KLM has its key and tells the two apart.
struct RepeatBlockSeg {
  be32 byte_count;  // of one repetition
  be32 op;
  be32 repeat_count;
  be16 reserved;
  be16 num_ent;
};
static_assert(sizeof(RepeatBlockSeg) == 16);
inline constexpr uint32_t repeat_block_op = 0x400;

struct RepeatEntSeg {
  be16 stride;
  be16 byte_count;
  be32 memkey;
  be64 va;
};
static_assert(sizeof(RepeatEntSeg) == 16);

}  // namespace kilim::prm
