// SPDX-License-Identifier: BSD-3-Clause
// Where each field lies: PRM "FTE_MATCH_SET_LYR_2_4", "FTE_MATCH_SET_MISC"; Linux
// include/linux/mlx5/mlx5_ifc.h, fte_match_set_lyr_2_4, fte_match_set_misc.
#include "vhca/ethernet/match_param.hh"

#include <algorithm>
#include <cstring>

#include "vhca/wire/tunnel.hh"

namespace kilim::vhca::ethernet {

namespace {

constexpr std::size_t smac_at = 0, ether_type_at = 6, dmac_at = 8, vlan_at = 14, protocol_at = 16,
                      dscp_at = 17, flags_at = 18, tcp_at = 20, ihl_at = 26, ttl_at = 27,
                      udp_at = 28, src_at = 32, dst_at = 48, address_bytes = 16;
constexpr unsigned cvlan_tag = 0x80, svlan_tag = 0x40, frag = 0x20, ip_version_shift = 1;
constexpr unsigned version_bits = 0x1e;
constexpr uint16_t type_qinq = 0x88a8;
constexpr uint8_t ip_protocol_tcp = 6;

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

// Of an Ethernet header at `at`.
void add_layer2(MatchParam& m, Frame f, std::size_t at, const wire::PacketView& v) noexcept {
  copy(m, dmac_at, f, at, 6);
  copy(m, smac_at, f, at + 6, 6);
  if (v.tags == 0) return;
  copy(m, vlan_at, f, at + 14, 2);  // priority, CFI and number lie as in the tag
  set(m, flags_at, wire::get_be<uint16_t>(f, at + 12) == type_qinq ? svlan_tag : cvlan_tag);
}

void add_ether_type(MatchParam& m, const wire::PacketView& v) noexcept {
  set(m, ether_type_at, v.ether_type >> 8u);
  set(m, ether_type_at + 1, v.ether_type & 0xffu);
}

void add_layer3(MatchParam& m, Frame f, const wire::PacketView& v) noexcept {
  const bool four = v.ip_version == 4;
  set(m, flags_at,
      m[flags_at] | unsigned{v.ip_version} << ip_version_shift | (v.fragment ? frag : 0u));
  set(m, protocol_at, v.protocol);
  set(m, ttl_at, byte_at(f, v.l3_at + (four ? 8 : 7)));
  if (four) {
    set(m, dscp_at, byte_at(f, v.l3_at + 1));
    set(m, ihl_at, byte_at(f, v.l3_at) << 4u);
    copy(m, src_at + address_bytes - 4, f, v.l3_at + 12, 4);
    copy(m, dst_at + address_bytes - 4, f, v.l3_at + 16, 4);
  } else {
    set(m, dscp_at, wire::get_be<uint16_t>(f, v.l3_at) >> 4u & 0xffu);
    copy(m, src_at, f, v.l3_at + 8, address_bytes);
    copy(m, dst_at, f, v.l3_at + 24, address_bytes);
  }
}

// Layers 3 and 4.
void add_packet(MatchParam& m, Frame f, const wire::PacketView& v) noexcept {
  constexpr std::size_t tcp_flags = 12;
  if (v.ip_version == 0) return;
  add_layer3(m, f, v);
  if (v.ports_at == 0) return;
  const bool tcp = v.protocol == ip_protocol_tcp;
  copy(m, tcp ? tcp_at : udp_at, f, v.ports_at, 4);
  if (!tcp || v.ports_at + tcp_flags + 2 > f.size()) return;
  // Nine flags, the first one in front of the byte of the others.
  set(m, flags_at, m[flags_at] | (byte_at(f, v.ports_at + tcp_flags) & 1u));
  set(m, flags_at + 1, byte_at(f, v.ports_at + tcp_flags + 1));
}

// The second tag of an Ethernet header at `at`.
void add_second_tag(MatchParam& m, Frame f, std::size_t at, const wire::PacketView& v,
                    bool inner) noexcept {
  if (v.tags < 2) return;
  copy(m, inner ? match_place::second_inner : match_place::second_outer, f, at + 18, 2);
  const bool service = wire::get_be<uint16_t>(f, at + 16) == type_qinq;
  const unsigned outer_bit = service ? match_place::outer_svlan : match_place::outer_cvlan;
  const unsigned inner_bit = service ? match_place::inner_svlan : match_place::inner_cvlan;
  set(m, match_place::second_tags, m[match_place::second_tags] | (inner ? inner_bit : outer_bit));
}

void add_label(MatchParam& m, std::size_t to, Frame f, const wire::PacketView& v) noexcept {
  if (v.ip_version != 6) return;
  const be32 label{wire::get_be<uint32_t>(f, v.l3_at) & 0xfffff};
  std::memcpy(m.data() + to, &label, sizeof(label));
}

// Whole packets have it, behind IP or behind UDP's port 4500 (RFC 3948, section 2.1; DPDK 22.11.11
// drivers/net/mlx5/mlx5_flow_dv.c, flow_dv_translate_item_esp(): MLX5_UDP_PORT_ESP); what is cut
// off is not read.
void add_spi(MatchParam& m, std::size_t to, Frame f, const wire::PacketView& v) noexcept {
  constexpr uint8_t protocol_esp = 50;
  constexpr uint16_t port_esp = 4500;
  constexpr std::size_t udp_bytes = 8, esp_bytes = 8, port_at = 2;
  if (v.l3 == wire::L3::none || v.fragment) return;
  const bool in_udp =
      v.l4 == wire::L4::udp && wire::get_be<uint16_t>(f, v.l4_at + port_at) == port_esp;
  if (v.protocol != protocol_esp && !in_udp) return;
  const std::size_t at = v.l4_at + (in_udp ? udp_bytes : 0);
  if (at + esp_bytes <= v.l3_end) copy(m, to, f, at, 4);
}

// Type and code, and behind the sum identifier and sequence number (RFC 792, RFC 4443).
void add_icmp(MatchParam& m, Frame f, const wire::PacketView& v) noexcept {
  constexpr uint8_t icmp = 1, icmpv6 = 58;
  const bool four = v.l3 == wire::L3::ipv4;
  if (v.l3 == wire::L3::none || v.fragment || v.protocol != (four ? icmp : icmpv6) ||
      v.l4_at + 8 > v.l3_end)
    return;
  copy(m, four ? match_icmp::type : match_icmp::type6, f, v.l4_at, 2);
  copy(m, four ? match_icmp::data : match_icmp::data6, f, v.l4_at + 4, 4);
}

void add_tunnel(MatchParam& m, const wire::TunnelView& t) noexcept {
  const be32 id{t.kind == wire::TunnelKind::vxlan ? t.id << 8 : t.id};
  if (t.kind == wire::TunnelKind::vxlan) std::memcpy(m.data() + match_place::vni, &id, 3);
  if (t.kind != wire::TunnelKind::gre) return;
  set(m, 0, t.gre_flags >> 8u & match_place::gre_present);
  set(m, match_place::gre_protocol, t.gre_protocol >> 8u);
  set(m, match_place::gre_protocol + 1, t.gre_protocol & 0xffu);
  std::memcpy(m.data() + match_place::gre_key, &id, sizeof(id));
}

}  // namespace

MatchParam outer_headers(Frame f, const wire::PacketView& v) noexcept {
  MatchParam m{};
  add_layer2(m, f, 0, v);
  add_ether_type(m, v);
  add_packet(m, f, v);
  return m;
}

DeepMatch deep_headers(Frame f, const wire::PacketView& outer) noexcept {
  DeepMatch m;
  add_second_tag(m.misc, f, 0, outer, false);
  add_label(m.misc, match_place::label_outer, f, outer);
  add_spi(m.misc, match_place::esp_outer, f, outer);
  add_icmp(m.misc, f, outer);
  const wire::TunnelView t = wire::parse_tunnel(f, outer);
  if (t.kind == wire::TunnelKind::none) return m;
  add_tunnel(m.misc, t);
  // Where the inner frame is cut off there is no type.
  if (t.inner.ether_type == 0) return m;
  if (t.has_ether) {
    add_layer2(m.inner, f, t.inner_at, t.inner);
    add_second_tag(m.misc, f, t.inner_at, t.inner, true);
  }
  add_ether_type(m.inner, t.inner);
  add_label(m.misc, match_place::label_inner, f, t.inner);
  add_spi(m.misc, match_place::esp_inner, f, t.inner);
  add_packet(m.inner, f, t.inner);
  return m;
}

namespace {

// Where value and mask of a rule go.
struct Buffers {
  MatchParam& value;
  MatchParam& mask;

  void set_number(std::size_t at, uint16_t v, uint16_t m) const noexcept {
    set(value, at, v >> 8u), set(value, at + 1, v & 0xffu);
    set(mask, at, m >> 8u), set(mask, at + 1, m & 0xffu);
  }
  void set_bits(std::size_t at, unsigned v, unsigned m) const noexcept {
    set(value, at, value[at] | v);
    set(mask, at, mask[at] | m);
  }
  void copy_from(std::size_t at, const uint8_t* v, const uint8_t* m,
                 std::size_t bytes) const noexcept {
    std::memcpy(value.data() + at, v, bytes);
    std::memcpy(mask.data() + at, m, bytes);
  }
};

// Linux drivers/infiniband/hw/mlx5/fs.c, parse_flow_attr(): a layer of IP is the version that the
// headers show (`match_ipv`), not a type, so that it is found behind any tags; a layer of TCP or
// UDP is a protocol and ports; a tag is the first one, and a customer's (`cvlan_tag`).
void put_layers(const FlowSpec& s, const Buffers& to) noexcept {
  if (s.has_eth) {
    to.copy_from(dmac_at, s.dst.data(), s.dst_mask.data(), s.dst.size());
    to.copy_from(smac_at, s.src.data(), s.src_mask.data(), s.src.size());
    to.set_number(ether_type_at, s.ether_type, s.ether_type_mask);
    to.set_number(vlan_at, s.vlan_tag, s.vlan_tag_mask);
    if (s.vlan_tag_mask != 0) to.set_bits(flags_at, cvlan_tag, cvlan_tag);
  }
  if (s.ip_version != 0) {
    const std::size_t bytes = s.ip_version == 4 ? 4 : address_bytes;
    to.set_bits(flags_at, unsigned{s.ip_version} << ip_version_shift, version_bits);
    to.copy_from(src_at + address_bytes - bytes, s.ip.src.data(), s.ip_mask.src.data(), bytes);
    to.copy_from(dst_at + address_bytes - bytes, s.ip.dst.data(), s.ip_mask.dst.data(), bytes);
    to.set_bits(dscp_at, s.ip.traffic, s.ip_mask.traffic);
  }
  to.set_bits(protocol_at, s.ip.protocol, s.ip_mask.protocol);
  if (s.l4_protocol == 0) return;
  to.set_bits(protocol_at, s.l4_protocol, 0xff);
  const std::size_t ports = s.l4_protocol == ip_protocol_tcp ? tcp_at : udp_at;
  to.set_number(ports, s.ports.src, s.ports_mask.src);
  to.set_number(ports + 2, s.ports.dst, s.ports_mask.dst);
}

void put_label(const FlowSpec& s, std::size_t at, const Buffers& to) noexcept {
  to.set_number(at + 2, static_cast<uint16_t>(s.ip.label), static_cast<uint16_t>(s.ip_mask.label));
  to.set_bits(at + 1, s.ip.label >> 16, s.ip_mask.label >> 16);
}

// A value has no bits that its mask leaves out.
void trim(MatchParam& value, const MatchParam& mask) noexcept {
  for (std::size_t i = 0; i < value.size(); i++) set(value, i, value[i] & mask[i]);
}

}  // namespace

void use_buffer(FlowSpec& rule) noexcept {
  if (!rule.by_buffer) use_buffer(rule, {}, {}, {});
}

void use_buffer(FlowSpec& rule, const FlowSpec& inner, const DeepMatch& value,
                const DeepMatch& mask) noexcept {
  rule.by_buffer = true;
  rule.deeper = value;
  rule.deeper_mask = mask;
  put_layers(rule, {rule.buffer, rule.buffer_mask});
  put_layers(inner, {rule.deeper.inner, rule.deeper_mask.inner});
  put_label(rule, match_place::label_outer, {rule.deeper.misc, rule.deeper_mask.misc});
  put_label(inner, match_place::label_inner, {rule.deeper.misc, rule.deeper_mask.misc});
  trim(rule.buffer, rule.buffer_mask);
  trim(rule.deeper.misc, rule.deeper_mask.misc);
  trim(rule.deeper.inner, rule.deeper_mask.inner);
  rule.deep = rule.deeper_mask != DeepMatch{};
}

namespace {

bool within(const MatchParam& mask, const MatchParam& known) noexcept {
  for (std::size_t i = 0; i < mask.size(); i++)
    if ((mask[i] & ~known[i]) != 0) return false;
  return true;
}

// Both addresses and the type; what is known of a tag.
constexpr MatchParam link_fields = [] {
  MatchParam m{};
  std::fill_n(m.begin(), protocol_at, uint8_t{0xff});
  m[flags_at] = cvlan_tag | svlan_tag;
  return m;
}();
constexpr MatchParam kind_fields = [] {
  MatchParam m = link_fields;
  m[protocol_at] = 0xff;
  m[flags_at] |= frag | version_bits;
  return m;
}();

}  // namespace

bool asks_link_alone(const MatchParam& mask) noexcept {
  return within(mask, link_fields);
}

bool asks_kind_alone(const MatchParam& mask) noexcept {
  return within(mask, kind_fields);
}

bool is_known(const MatchParam& misc_mask) noexcept {
  MatchParam known{};
  known[0] = match_place::gre_present;
  for (std::size_t i = match_place::second_outer; i < match_place::second_tags; i++)
    known[i] = 0xff;
  known[match_place::second_tags] = 0xf0;
  for (std::size_t i = match_place::gre_protocol; i < match_place::vni + 3; i++) known[i] = 0xff;
  for (std::size_t at : {match_place::label_outer, match_place::label_inner})
    known[at + 1] = 0x0f, known[at + 2] = known[at + 3] = 0xff;
  for (std::size_t i = match_place::esp_inner; i < match_place::esp_outer + 4; i++) known[i] = 0xff;
  return within(misc_mask, known);
}

bool is_known_misc3(const MatchParam& mask) noexcept {
  MatchParam known{};
  for (std::size_t i = 0; i < match_icmp::bytes; i++) known[match_icmp::at + i] = 0xff;
  return within(mask, known);
}

void keep_misc3(const MatchParam& misc3, DeepMatch& to) noexcept {
  std::memcpy(to.misc.data() + match_icmp::kept_at, misc3.data() + match_icmp::at,
              match_icmp::bytes);
}

void complete_tag_masks(MatchParam& outer, DeepMatch& deeper) noexcept {
  constexpr unsigned first = cvlan_tag | svlan_tag,
                     second_outer = match_place::outer_cvlan | match_place::outer_svlan,
                     second_inner = match_place::inner_cvlan | match_place::inner_svlan;
  const auto complete = [](MatchParam& m, std::size_t at, unsigned both) {
    if ((m[at] & both) != 0) set(m, at, m[at] | both);
  };
  complete(outer, flags_at, first);
  complete(deeper.inner, flags_at, first);
  complete(deeper.misc, match_place::second_tags, second_outer);
  complete(deeper.misc, match_place::second_tags, second_inner);
}

}  // namespace kilim::vhca::ethernet
