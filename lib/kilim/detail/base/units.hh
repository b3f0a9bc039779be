// SPDX-License-Identifier: BSD-3-Clause
// Units of the send queue and of mkey lists, each a type of its own, and the one conversion between
// each two of them. Pure values, any thread.
#pragma once

#include <cstdint>

#include "kilim/detail/base/ident.hh"

namespace kilim::inline v1 {

using Bytes = Ident<struct BytesTag, uint64_t>;
using Octowords =
    Ident<struct OctowordsTag, uint32_t>;          // 16 bytes: one KLM, one data segment, one "ds"
using Wqebbs = Ident<struct WqebbsTag, uint32_t>;  // 64 bytes: a send queue's basic block

inline constexpr uint32_t octoword_bytes = 16;
inline constexpr uint32_t wqebb_bytes = 64;

// The least multiple of `power_of_two` that is not below `value`, which is at most 2^32 -
// power_of_two.
constexpr uint32_t round_up(uint32_t value, uint32_t power_of_two) noexcept {
  return (value + power_of_two - 1) & ~(power_of_two - 1);
}
// Basic blocks that a WQE of `ds` octowords takes in its ring.
constexpr Wqebbs wqebbs_for(Octowords ds) noexcept {
  return Wqebbs{(ds.value() + 3) / 4};
}
// Octowords that `b` bytes fill, the last one perhaps in part. At most 64 GiB.
constexpr Octowords octowords_for(Bytes b) noexcept {
  return Octowords{static_cast<uint32_t>((b.value() + octoword_bytes - 1) / octoword_bytes)};
}

}  // namespace kilim::inline v1
