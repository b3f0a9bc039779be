// SPDX-License-Identifier: BSD-3-Clause
// The tables of a Toeplitz key. Pure.
#include "vhca/ethernet/toeplitz.hh"

namespace kilim::vhca {

namespace {

// The 32 bits of the key from bit `at` on, counted from the highest bit of the first byte.
uint32_t window(const std::array<uint8_t, toeplitz_key_bytes>& key, std::size_t at) noexcept {
  uint64_t five = 0;
  for (std::size_t i = 0; i < 5; i++)
    five = five << 8 | (at / 8 + i < key.size() ? key[at / 8 + i] : 0u);
  return static_cast<uint32_t>(five >> (8 - at % 8));
}

}  // namespace

Toeplitz::Toeplitz(const std::array<uint8_t, toeplitz_key_bytes>& key) noexcept {
  for (std::size_t part = 0; part < parts_.size(); part++) {
    for (std::size_t bit = 0; bit < 4; bit++) {
      const uint32_t w = window(key, part * 4 + bit);
      for (std::size_t value = 0; value < 16; value++) {
        if ((value >> (3 - bit) & 1) != 0) parts_[part][value] ^= w;
      }
    }
  }
  for (std::size_t i = 0; i < bytes_.size(); i++)
    for (std::size_t value = 0; value < 256; value++)
      bytes_[i][value] = parts_[2 * i][value >> 4] ^ parts_[2 * i + 1][value & 15];
}

}  // namespace kilim::vhca
