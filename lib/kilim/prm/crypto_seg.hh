// SPDX-License-Identifier: BSD-3-Clause
// PRM: "Byte Stream Format" of type crypto, "Encryption Key Object", "Crypto Login Object". The
// descriptor behind the list of a UMR WQE that says how a key's bytes are encrypted, and the
// general objects that hold keys. Names: struct mlx5_crypto_bsf of rdma-core's
// providers/mlx5/wqe.h, mlx5_ifc_encryption_key_obj_bits of its mlx5_ifc.h. Debian installs no
// header with these formats: test/golden compares them with what libmlx5 writes. Pure formats, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kilim/detail/base/be.hh"

namespace kilim::inline v1::prm {

struct CryptoBsf {
  uint8_t size_type;  // 7:6 bsf::size_with_inline or crypto::with_signature, 1:0 crypto::type
  uint8_t order;      // crypto::wire_signature ...
  uint8_t rsvd0;
  uint8_t standard;    // 0: AES-XTS
  be32 raw_data_size;  // bytes of data; bsf::any_raw_size: not limited
  uint8_t unit;        // bytes of a data unit: bsf::block_512 ..., crypto::unit_1_mib
  uint8_t rsvd1[7];
  uint8_t tweak[16];  // number of the first data unit; its byte order is the adapter's
  be32 dek;           // 23:0 number of the object with the keys
  uint8_t rsvd2[4];
  uint8_t keytag[8];  // that of the object, if it has one
  uint8_t rsvd3[16];
};
static_assert(sizeof(CryptoBsf) == 64 && offsetof(CryptoBsf, tweak) == 16 &&
              offsetof(CryptoBsf, dek) == 32 && offsetof(CryptoBsf, keytag) == 40);

namespace crypto {
inline constexpr uint32_t octowords = 4;  // of a CryptoBsf
inline constexpr uint8_t type = 1;
inline constexpr uint8_t with_signature = 3 << 6;  // both kinds of BSF follow each other
inline constexpr uint8_t unit_1_mib = 5;           // DPDK drivers/crypto/mlx5: MLX5_BLOCK_SIZE_1MB

// CryptoBsf::order, MLX5_ENCRYPTION_ORDER_* of mlx5_ifc.h. What leaves memory is encrypted ("wire")
// or decrypted ("memory"), on the far side of the signatures or, raw, on the near one; the table of
// mlx5dv_wr_set_mkey_crypto(3) has it in full.
inline constexpr uint8_t wire_signature = 0, memory_signature = 1, raw_wire = 2, raw_memory = 3;
}  // namespace crypto

// The object of CREATE_GENERAL_OBJECT and QUERY_GENERAL_OBJECT, behind a header of 16 bytes.
struct DekObject {
  be64 modify_field_select;
  uint8_t state;  // 0 ready, 1 error
  uint8_t rsvd0;
  uint8_t key_size;     // 3:0 dek::size_128, size_256
  uint8_t tag_purpose;  // 7 the key has a tag, 3:0 dek::aes_xts
  be32 pd;              // 23:0
  uint8_t rsvd1[32];
  uint8_t opaque[8];
  uint8_t rsvd2[8];
  uint8_t key[128];  // the data's key, the tweak's key, the tag
  uint8_t rsvd3[64];
};
static_assert(sizeof(DekObject) == 256 && offsetof(DekObject, pd) == 12 &&
              offsetof(DekObject, opaque) == 48 && offsetof(DekObject, key) == 64);

namespace dek {
inline constexpr uint8_t size_128 = 0, size_256 = 1;  // of one of both keys
inline constexpr uint8_t has_tag = 1 << 7;
inline constexpr uint8_t aes_xts = 3;
inline constexpr std::size_t tag_bytes = 8;
}  // namespace dek

}  // namespace kilim::inline v1::prm
