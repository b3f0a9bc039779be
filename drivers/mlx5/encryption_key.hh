// SPDX-License-Identifier: BSD-3-Clause
// EncryptionKey: a data encryption key in the device (PRM: "Encryption Key Object"), made by
// CREATE_GENERAL_OBJECT through DevX: mlx5dv_dek_create(3) does not tell its number, which a UMR
// names (umr/crypto.hh). Owner: the caller; control path only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kilim/detail/base/result.hh"
#include "mlx5/handle.hh"

namespace kilim::mlx5 {

class EncryptionKey {
 public:
  using Tag = std::array<uint8_t, 8>;
  // `keys`: that of the data and that of the tweak, 16 or 32 bytes each, in plain text. With a tag
  // every UMR that names the key must have it. EINVAL: neither 32 nor 64 bytes; else the device's
  // error.
  static Result<EncryptionKey> create(ibv_pd* pd, std::span<const std::byte> keys,
                                      std::optional<Tag> tag = std::nullopt);
  // For umr::CryptoRule::dek.
  [[nodiscard]] uint32_t number() const noexcept { return number_; }

 private:
  EncryptionKey(DevxObject object, uint32_t number) noexcept
      : object_(std::move(object)), number_(number) {}
  DevxObject object_;
  uint32_t number_;
};

}  // namespace kilim::mlx5
