// SPDX-License-Identifier: BSD-3-Clause
// The Toeplitz hash of receive-side scaling: for each bit of the input that is set, the 32 bits of
// the key that begin there are added without carry (Microsoft, "RSS Hashing Functions"). A value;
// any thread. Four bits are looked up at a time, and eight of what most frames are hashed by; four
// of those are multiplied with the key without carry where the processor can do that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/core/receive_spec.hh"

namespace kilim::vhca::ethernet {

class Toeplitz {
 public:
  // Two IPv6 addresses and two ports, for which a key of 40 bytes has enough bits.
  static constexpr std::size_t longest_input = 36;

  // `with_products`: it multiplies, where the processor can.
  explicit Toeplitz(const std::array<uint8_t, toeplitz_key_bytes>& key,
                    bool with_products = true) noexcept;

  // Of at most longest_input bytes.
  [[nodiscard]] uint32_t hash(std::span<const std::byte> input) const noexcept {
    uint32_t h = 0;
    for (std::size_t i = 0; i < input.size(); i++) {
      const auto byte = std::to_integer<unsigned>(input[i]);
      h ^= parts_[2 * i][byte >> 4] ^ parts_[2 * i + 1][byte & 15u];
    }
    return h;
  }

  // Of `Bytes` bytes, at most those of two IPv4 addresses and two ports.
  template <std::size_t Bytes>
  [[nodiscard, gnu::always_inline]] uint32_t hash_short(const std::byte* input) const noexcept {
    static_assert(Bytes <= short_input);
    uint32_t h = 0;
    for (std::size_t i = 0; i < Bytes; i++) h ^= bytes_[i][std::to_integer<uint8_t>(input[i])];
    return h;
  }

  // Of two IPv4 addresses, and with `ports` of the two ports behind them, of four frames: each
  // `step` bytes behind the other, and 16 bytes of each can be read.
  struct Inputs {
    const std::byte* first;
    std::size_t step;
    bool ports;
  };
  // `value`: numbers; `raw`: the same, big-endian.
  void hash_four(const Inputs&, std::array<uint32_t, 4>& value,
                 std::array<uint32_t, 4>& raw) const noexcept;
  // For each 32 bits of a short input, the 63 bits of the key that its bits meet, the first one
  // lowest, and one higher than that; then 0 (toeplitz_products.hh). Null: the processor does not
  // multiply so.
  [[nodiscard]] const uint64_t* products() const noexcept {
    return multiplies_ ? products_.data() : nullptr;
  }

 private:
  static constexpr std::size_t address_input = 8, short_input = 12;
  static constexpr std::size_t word_bits = 32;
  std::array<std::array<uint32_t, 16>, 2 * longest_input> parts_{};
  std::array<std::array<uint32_t, 256>, short_input> bytes_{};
  alignas(16) std::array<uint64_t, short_input / 4 + 1> products_{};
  bool multiplies_ = false;
};

}  // namespace kilim::vhca::ethernet
