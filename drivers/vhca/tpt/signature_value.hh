// SPDX-License-Identifier: BSD-3-Clause
// The checksums behind block signatures: CRC-16 of T10-DIF, the Internet checksum, CRC-32, CRC-32C,
// CRC-64 of XP10. A running value, piece by piece. Pure values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/tpt/signature.hh"

namespace kilim::vhca::tpt {

class RunningSum {
 public:
  RunningSum() = default;
  // `seed` is as wide as the result.
  RunningSum(SignKind kind, uint64_t seed) noexcept;
  void add(std::span<const std::byte>) noexcept;
  [[nodiscard]] uint64_t value() const noexcept;

 private:
  SignKind kind_ = SignKind::none;
  bool odd_ = false;  // checksum: half of a word has come
  uint64_t state_ = 0;
};

// Bytes of a block that has just ended, as they follow its data, from and to the value that masks
// name: the guard in the highest bytes of 8, a CRC-32 in the highest 4.
uint64_t load_signature(const SignDomain&, const std::byte*) noexcept;
void store_signature(const SignDomain&, uint64_t, std::byte*) noexcept;
// The signature of block `index` with this sum over its data.
uint64_t make_signature(const SignDomain&, const Psv&, uint64_t index, uint64_t sum) noexcept;
// What the sum of block `index` begins with.
uint64_t seed_of(const SignDomain&, const Psv&, uint64_t index) noexcept;
// Bytes of a mask as bits of the value.
uint64_t spread_mask(uint8_t mask) noexcept;

}  // namespace kilim::vhca::tpt
