// SPDX-License-Identifier: BSD-3-Clause
// PRM: "FTE_MATCH_SET_LYR_2_4", "FTE_MATCH_SET_MISC": the headers of a frame as all rules compare
// them, those made of verbs specs too. Pure, any thread; never allocates; frames are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "vhca/core/spec.hh"
#include "vhca/wire/packet.hh"

namespace kilim::vhca::ethernet {

// Places in "FTE_MATCH_SET_MISC".
namespace match_place {
inline constexpr std::size_t second_outer = 8, second_inner = 10, second_tags = 12,
                             gre_protocol = 14, gre_key = 16, vni = 20, label_outer = 28,
                             label_inner = 32, esp_inner = 44, esp_outer = 48;
inline constexpr unsigned gre_present = 0xb0;  // checksum, key, sequence, as GRE itself has them
inline constexpr unsigned outer_cvlan = 0x80, inner_cvlan = 0x40, outer_svlan = 0x20,
                          inner_svlan = 0x10;
}  // namespace match_place

// ICMP's header is the only part of "FTE_MATCH_SET_MISC3" that is matched. What that set has of it,
// `bytes` from `at` on, is kept where the last bytes of "FTE_MATCH_SET_MISC" are reserved: from
// `kept_at` on.
namespace match_icmp {
inline constexpr std::size_t at = 24, kept_at = 52, bytes = 12;
inline constexpr std::size_t data = 52, data6 = 56, type = 60, type6 = 62;
}  // namespace match_icmp

// Of a frame that has at least an Ethernet header, and parse_packet() of it.
MatchParam outer_headers(std::span<const std::byte> frame, const wire::PacketView&) noexcept;
DeepMatch deep_headers(std::span<const std::byte> frame, const wire::PacketView&) noexcept;
inline MatchParam outer_headers(std::span<const std::byte> frame) noexcept {
  return outer_headers(frame, wire::parse_packet(frame));
}
inline DeepMatch deep_headers(std::span<const std::byte> frame) noexcept {
  return deep_headers(frame, wire::parse_packet(frame));
}

// How much of a frame a mask of "FTE_MATCH_SET_LYR_2_4" looks at: no further than addresses, type
// and tags; of packets that are no fragments no further than version and protocol of IP.
bool asks_link_alone(const MatchParam& mask) noexcept;
bool asks_kind_alone(const MatchParam& mask) noexcept;

// Whether a mask of "FTE_MATCH_SET_MISC" asks for nothing but what deep_headers() fills in.
bool is_known(const MatchParam& misc_mask) noexcept;
// The same of "FTE_MATCH_SET_MISC3", and how what a rule says there is kept.
bool is_known_misc3(const MatchParam& mask) noexcept;
void keep_misc3(const MatchParam& misc3, DeepMatch& to) noexcept;

// The card compares both bits of a tag as one, whether there is none, a customer's or a service's:
// a mask that has one of them has both (rdma-core v44 providers/mlx5/dr_ste_v0.c,
// dr_ste_v0_build_eth_l2_src_bit_mask(): first_ and second_vlan_qualifier; Linux
// drivers/net/ethernet/mellanox/mlx5/core/en_fs.c, MLX5E_VLAN_RULE_TYPE_UNTAGGED, which asks for
// neither kind by cvlan_tag alone).
void complete_tag_masks(MatchParam& outer, DeepMatch& deeper) noexcept;

// Makes a rule of verbs specs one by buffer that says the same; a rule by buffer stays as it is.
void use_buffer(FlowSpec& rule) noexcept;
// Likewise of a rule that names a tunnel or what lies in it, which `value` and `mask` have already;
// `inner` has the inner headers.
void use_buffer(FlowSpec& rule, const FlowSpec& inner, const DeepMatch& value,
                const DeepMatch& mask) noexcept;

inline bool equal_under_mask(const MatchParam& a, const MatchParam& b,
                             const MatchParam& mask) noexcept {
  const auto word = [](const MatchParam& m, std::size_t at) {
    uint64_t v;
    std::memcpy(&v, m.data() + at, sizeof v);
    return v;
  };
  uint64_t differ = 0;
  for (std::size_t i = 0; i < sizeof(MatchParam); i += sizeof(uint64_t))
    differ |= (word(a, i) ^ word(b, i)) & word(mask, i);
  return differ == 0;
}
inline bool equal_under_mask(const DeepMatch& a, const DeepMatch& b,
                             const DeepMatch& mask) noexcept {
  return equal_under_mask(a.misc, b.misc, mask.misc) &&
         equal_under_mask(a.inner, b.inner, mask.inner);
}

}  // namespace kilim::vhca::ethernet
