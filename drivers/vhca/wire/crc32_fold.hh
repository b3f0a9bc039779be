// SPDX-License-Identifier: BSD-3-Clause
// CRC-32 of long pieces by carry-less multiplication, where the processor has it: sixteen bytes
// that lie before others are multiplied to what they are worth there. Pure, any thread; never
// allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilim::vhca::wire::crc32_fold {

// The fewest bytes that fold() takes.
inline constexpr std::size_t least = 64;
enum class Way : uint8_t {
  none,    // the processor cannot
  narrow,  // PCLMULQDQ
  wide,    // VPCLMULQDQ with AVX2
};
// The best way of this processor. A few loads.
Way best() noexcept;
// `state` and as many whole blocks of 16 of `bytes` as there are, at least `least` bytes, have in
// all the sum that `out`, 16 bytes, has alone with a state of 0. How many bytes went. `way` is one
// that this processor can.
std::size_t fold(Way way, uint32_t state, std::span<const std::byte> bytes,
                 std::span<std::byte, 16> out) noexcept;

}  // namespace kilim::vhca::wire::crc32_fold
