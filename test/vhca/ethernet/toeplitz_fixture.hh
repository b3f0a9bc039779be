// SPDX-License-Identifier: BSD-3-Clause
// For tests: the Toeplitz hash as its definition says it, a bit of the input at a time: for each
// that is set, the leftmost 32 bits of the key are added; then the key moves on by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kilim::test {

inline uint32_t slow_toeplitz(std::span<const uint8_t> key, std::span<const uint8_t> input) {
  std::vector<bool> bits;
  for (uint8_t byte : key) {
    for (int bit = 7; bit >= 0; bit--) bits.push_back((byte >> bit & 1) != 0);
  }
  bits.resize(bits.size() + 64);
  uint32_t hash = 0;
  for (std::size_t i = 0; i < input.size() * 8; i++) {
    if ((input[i / 8] >> (7 - i % 8) & 1) == 0) continue;
    for (std::size_t j = 0; j < 32; j++) hash ^= bits[i + j] ? uint32_t{1} << (31 - j) : 0;
  }
  return hash;
}

// The key of Microsoft's "Verifying the RSS Hash Calculation".
inline constexpr uint8_t verification_key[40] = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

}  // namespace kilim::test
