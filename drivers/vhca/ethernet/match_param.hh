// SPDX-License-Identifier: BSD-3-Clause
// PRM: "FTE_MATCH_SET_LYR_2_4", "FTE_MATCH_SET_MISC": the headers of a frame as rules by buffer
// compare them. Never
// allocates; frames are untrusted.
#pragma once

#include <cstddef>
#include <span>

#include "vhca/core/spec.hh"

namespace kilim::vhca {

// Places in "FTE_MATCH_SET_MISC".
namespace match_place {
inline constexpr std::size_t second_outer = 8, second_inner = 10, second_tags = 12,
                             gre_protocol = 14, gre_key = 16, vni = 20, label_outer = 28,
                             label_inner = 32;
inline constexpr unsigned gre_present = 0xb0;  // checksum, key, sequence, as GRE itself has them
inline constexpr unsigned outer_cvlan = 0x80, inner_cvlan = 0x40, outer_svlan = 0x20,
                          inner_svlan = 0x10;
}  // namespace match_place

// At least an Ethernet header long.
MatchParam outer_headers(std::span<const std::byte> frame) noexcept;
DeepMatch deep_headers(std::span<const std::byte> frame) noexcept;

// Whether a mask of "FTE_MATCH_SET_MISC" asks for nothing but what deep_headers() fills in.
bool is_known(const MatchParam& misc_mask) noexcept;

// Makes a rule one by buffer that says the same: for rules that name a tunnel or what lies in it,
// which `value` and `mask` have already; `inner` has the inner headers.
void use_buffer(FlowSpec& rule, const FlowSpec& inner, const DeepMatch& value,
                const DeepMatch& mask) noexcept;

inline bool equal_under_mask(const MatchParam& a, const MatchParam& b,
                             const MatchParam& mask) noexcept {
  for (std::size_t i = 0; i < a.size(); i++) {
    if (((a[i] ^ b[i]) & mask[i]) != 0) return false;
  }
  return true;
}
inline bool equal_under_mask(const DeepMatch& a, const DeepMatch& b,
                             const DeepMatch& mask) noexcept {
  return equal_under_mask(a.misc, b.misc, mask.misc) &&
         equal_under_mask(a.inner, b.inner, mask.inner);
}

}  // namespace kilim::vhca
