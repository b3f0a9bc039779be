// SPDX-License-Identifier: BSD-3-Clause
// Ethernet's CRC-32. Pure, any thread; never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vhca/wire/crc32_fold.hh"

namespace kilim::vhca::wire {

// IEEE 802.3, "Frame Check Sequence (FCS) field"; zlib's crc32() and IBTA's ICRC are the same sum.
// Continues `state`, which begins as all ones and is inverted at the end. By the fastest way that
// this processor has.
uint32_t crc32_add(uint32_t state, std::span<const std::byte> bytes) noexcept;

// The same by one way that this processor has; Way::none: by tables alone.
uint32_t crc32_add_by(crc32_fold::Way, uint32_t state, std::span<const std::byte> bytes) noexcept;

}  // namespace kilim::vhca::wire
