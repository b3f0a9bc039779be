// SPDX-License-Identifier: BSD-3-Clause
// FIPS 197: AES with keys of 128 and 256 bits, sixteen bytes at a time. By the processor's AES
// instructions where it has them, else by arithmetic on whole blocks: no table is looked up by a
// byte of a key or of data. Owner: whoever has the key. Pure values, any thread. Never allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kilim::vhca::tpt {

inline constexpr std::size_t aes_block = 16;
using AesBlock = std::array<uint8_t, aes_block>;

// Round keys of both directions: those of decryption are the equivalent inverse cipher's (FIPS 197,
// 5.3.5).
struct AesKey {
  uint32_t rounds = 0;
  alignas(16) AesBlock encrypt[15]{};
  alignas(16) AesBlock decrypt[15]{};

  // Makes the key schedule of a key of 16 or 32 bytes.
  static AesKey of(std::span<const std::byte> key) noexcept;
};

enum class AesWay : uint8_t { best, portable, instructions };
// Whether this processor has the way.
bool aes_has(AesWay) noexcept;

// IEEE 1619: a key for the data and one for the tweak.
struct XtsKey {
  AesKey data, tweak;
  static XtsKey of(std::span<const std::byte> both) noexcept;  // 32 or 64 bytes
};

// One data unit on its way, block by block. The tweak of block j is alpha^j times the encrypted
// number of the unit.
class XtsUnit {
 public:
  // `number` as the standard has it: the lowest byte first. Begins with this block of the unit.
  void begin(const XtsKey&, const AesBlock& number, uint64_t block, AesWay = AesWay::best) noexcept;
  // Whole blocks, in place.
  void run(std::byte* data, std::size_t blocks, bool encrypt) noexcept;
  // The last whole block of a unit and the bytes behind it, 1 to 15: ciphertext stealing (IEEE
  // 1619, 5.3.2 and 5.4.2).
  void run_last(std::byte* data, std::size_t bytes, bool encrypt) noexcept;

 private:
  const XtsKey* key_ = nullptr;
  bool instructions_ = false;
  AesBlock tweak_{};
};

}  // namespace kilim::vhca::tpt
