// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Memory Key Context" as the command CREATE_MKEY has it; the form in a UMR WQE is in
// prm/umr_seg.hh. Source: mlx5_ifc_mkc_bits, Linux include/linux/mlx5/mlx5_ifc.h. Debian installs
// no header with it: test/abi compares it with what libmlx5 sends. Pure format, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"
#include "kilim/detail/base/field.hh"

namespace kilim::inline v1::prm {

struct Mkc {
  be32
      flags;  // 30 free, 28:26 access mode 4:2, 15 umr_en, 14:10 a rw rr lw lr, 9:8 access mode 1:0
  be32 qpn_mkey;  // 31:8 QPN, 7:0 tag
  be32 reserved_8;
  be32 flags_pd;  // 31 length64, 30 bsf_en, 24 en_rinval, 23:0 PD
  be64 start_addr;
  be64 len;
  be32 bsf_octword_size;  // octowords of BSFs that a UMR may write
  be32 reserved_24[4];
  be32 translations_octword_size;  // octowords of the list, a multiple of four
  be32 log_page_size;  // 6 relaxed_ordering_read, 4:0 log page size (for fixed-size entries: log
                       // entity size)
  be32 crypto;         // 28:27 crypto_en
};
static_assert(sizeof(Mkc) == 64 && offsetof(Mkc, start_addr) == 16 &&
              offsetof(Mkc, translations_octword_size) == 52);

namespace mkc {
using free = Field<&Mkc::flags, 30, 30>;
using access_mode_4_2 = Field<&Mkc::flags, 28, 26>;
using umr_en = Field<&Mkc::flags, 15, 15>;
using atomic = Field<&Mkc::flags, 14, 14>;
using remote_write = Field<&Mkc::flags, 13, 13>;
using remote_read = Field<&Mkc::flags, 12, 12>;
using local_write = Field<&Mkc::flags, 11, 11>;
using local_read = Field<&Mkc::flags, 10, 10>;
using access_mode_1_0 = Field<&Mkc::flags, 9, 8>;
using qpn = Field<&Mkc::qpn_mkey, 31, 8>;
using tag = Field<&Mkc::qpn_mkey, 7, 0>;
using length64 = Field<&Mkc::flags_pd, 31, 31>;
using bsf_en = Field<&Mkc::flags_pd, 30, 30>;
using en_rinval = Field<&Mkc::flags_pd, 24, 24>;
using pd = Field<&Mkc::flags_pd, 23, 0>;
using log_entity_size = Field<&Mkc::log_page_size, 4, 0>;
using crypto_en = Field<&Mkc::crypto, 28, 27>;

// How the key translates: not at all, by a table of pages, by entries of any length, by entries of
// one size.
inline constexpr uint32_t access_mode_pa = 0;
inline constexpr uint32_t access_mode_mtt = 1;
inline constexpr uint32_t access_mode_klm = 2;
inline constexpr uint32_t access_mode_ksm = 3;
}  // namespace mkc

// Input of CREATE_MKEY up to the inline list.
struct CreateMkeyIn {
  be16 opcode;
  be16 uid;
  be16 reserved_4;
  be16 op_mod;
  be32 reserved_8;
  be32 flags;  // 31 pg_access, 30 mkey_umem_valid
  Mkc mkc;
  be32 reserved_50[4];
  be32 translations_octword_actual_size;
  uint8_t reserved_64[0xac];
};
static_assert(sizeof(CreateMkeyIn) == 272 && offsetof(CreateMkeyIn, mkc) == 16 &&
              offsetof(CreateMkeyIn, translations_octword_actual_size) == 0x60);

}  // namespace kilim::inline v1::prm
