// SPDX-License-Identifier: BSD-3-Clause
// Where each field lies: PRM "FTE_MATCH_SET_LYR_2_4", Linux include/linux/mlx5/mlx5_ifc.h,
// fte_match_set_lyr_2_4.
#include "vhca/ethernet/match_param.hh"

#include <cstring>

#include "vhca/wire/packet.hh"

namespace kilim::vhca {

namespace {

constexpr std::size_t smac_at = 0, ether_type_at = 6, dmac_at = 8, vlan_at = 14, protocol_at = 16,
                      dscp_at = 17, flags_at = 18, tcp_at = 20, ihl_at = 26, ttl_at = 27,
                      udp_at = 28, src_at = 32, dst_at = 48, address_bytes = 16;
constexpr unsigned cvlan_tag = 0x80, svlan_tag = 0x40, frag = 0x20, ip_version_shift = 1;
constexpr uint16_t type_qinq = 0x88a8;

using Frame = std::span<const std::byte>;

unsigned byte_at(Frame f, std::size_t at) noexcept {
  return std::to_integer<unsigned>(f[at]);
}

void copy(MatchParam& m, std::size_t to, Frame f, std::size_t from, std::size_t bytes) noexcept {
  std::memcpy(m.data() + to, f.data() + from, bytes);
}

void set(MatchParam& m, std::size_t at, unsigned value) noexcept {
  m[at] = static_cast<uint8_t>(value);
}

void add_layer2(MatchParam& m, Frame f, const PacketView& v) noexcept {
  copy(m, dmac_at, f, 0, 6);
  copy(m, smac_at, f, 6, 6);
  set(m, ether_type_at, v.ether_type >> 8u);
  set(m, ether_type_at + 1, v.ether_type & 0xffu);
  if (v.tags == 0) return;
  copy(m, vlan_at, f, 14, 2);  // priority, CFI and number lie as in the tag
  set(m, flags_at, get_be<uint16_t>(f, 12) == type_qinq ? svlan_tag : cvlan_tag);
}

void add_layer3(MatchParam& m, Frame f, const PacketView& v) noexcept {
  const bool four = v.l3 == L3::ipv4;
  set(m, flags_at, m[flags_at] | (four ? 4u : 6u) << ip_version_shift | (v.fragment ? frag : 0u));
  set(m, protocol_at, v.protocol);
  set(m, ttl_at, byte_at(f, v.l3_at + (four ? 8 : 7)));
  if (four) {
    set(m, dscp_at, byte_at(f, v.l3_at + 1));
    set(m, ihl_at, byte_at(f, v.l3_at) << 4u);
    copy(m, src_at + address_bytes - 4, f, v.l3_at + 12, 4);
    copy(m, dst_at + address_bytes - 4, f, v.l3_at + 16, 4);
  } else {
    set(m, dscp_at, get_be<uint16_t>(f, v.l3_at) >> 4u & 0xffu);
    copy(m, src_at, f, v.l3_at + 8, address_bytes);
    copy(m, dst_at, f, v.l3_at + 24, address_bytes);
  }
}

}  // namespace

MatchParam outer_headers(Frame f) noexcept {
  MatchParam m{};
  const PacketView v = parse_packet(f);
  add_layer2(m, f, v);
  if (v.l3 == L3::none) return m;
  add_layer3(m, f, v);
  if (v.l4 == L4::udp) copy(m, udp_at, f, v.l4_at, 4);
  if (v.l4 != L4::tcp) return m;
  copy(m, tcp_at, f, v.l4_at, 4);
  // Nine flags, the first one in front of the byte of the others.
  set(m, flags_at, m[flags_at] | (byte_at(f, v.l4_at + 12) & 1u));
  set(m, flags_at + 1, byte_at(f, v.l4_at + 13));
  return m;
}

}  // namespace kilim::vhca
