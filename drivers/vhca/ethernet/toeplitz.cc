// SPDX-License-Identifier: BSD-3-Clause
// The tables of a Toeplitz key. Pure.
#include "vhca/ethernet/toeplitz.hh"

#include "kilim/detail/base/be.hh"
#include "vhca/ethernet/toeplitz_products.hh"

namespace kilim::vhca::ethernet {

namespace {

// The 32 bits of the key from bit `at` on, counted from the highest bit of the first byte.
uint32_t window(const std::array<uint8_t, toeplitz_key_bytes>& key, std::size_t at) noexcept {
  uint64_t five = 0;
  for (std::size_t i = 0; i < 5; i++)
    five = five << 8 | (at / 8 + i < key.size() ? key[at / 8 + i] : 0u);
  return static_cast<uint32_t>(five >> (8 - at % 8));
}

// The key's bits from bit `at` on, the first one lowest.
uint64_t reversed_window(const std::array<uint8_t, toeplitz_key_bytes>& key, std::size_t at,
                         std::size_t bits) noexcept {
  uint64_t w = 0;
  for (std::size_t i = 0; i < bits; i++) w |= uint64_t{window(key, at + i) >> 31} << i;
  return w;
}

bool has_products() noexcept {
  return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("ssse3") != 0;
}

[[gnu::target("pclmul,ssse3")]] void multiply(const uint64_t* products, const Toeplitz::Inputs& in,
                                              uint32_t* value, uint32_t* raw) noexcept {
  multiply_four(windows_of(products, in.ports), in.first, in.step, value, raw);
}

}  // namespace

Toeplitz::Toeplitz(const std::array<uint8_t, toeplitz_key_bytes>& key, bool with_products) noexcept
    : multiplies_(with_products && has_products()) {
  for (std::size_t i = 0; i < short_input / 4; i++)
    products_[i] = reversed_window(key, i * word_bits, 2 * word_bits - 1) << 1;
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

void Toeplitz::hash_four(const Inputs& in, std::array<uint32_t, 4>& value,
                         std::array<uint32_t, 4>& raw) const noexcept {
  if (multiplies_) [[likely]]
    return multiply(products_.data(), in, value.data(), raw.data());
  const std::byte* input = in.first;
  for (std::size_t i = 0; i < 4; i++, input += in.step) {
    value[i] = in.ports ? hash_short<short_input>(input) : hash_short<address_input>(input);
    raw[i] = be32{value[i]}.raw();
  }
}

}  // namespace kilim::vhca::ethernet
