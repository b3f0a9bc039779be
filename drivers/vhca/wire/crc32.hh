// SPDX-License-Identifier: BSD-3-Clause
// Ethernet's CRC-32. Pure, any thread; never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kilim::vhca {

// IEEE 802.3, "Frame Check Sequence (FCS) field"; zlib's crc32() and IBTA's ICRC are the same sum.
// Continues `state`, which begins as all ones and is inverted at the end.
uint32_t crc32_add(uint32_t state, std::span<const std::byte> bytes) noexcept;

}  // namespace kilim::vhca
