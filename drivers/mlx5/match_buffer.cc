// SPDX-License-Identifier: BSD-3-Clause
// Which fields stand for a layer: Linux drivers/infiniband/hw/mlx5/fs.c, parse_flow_attr(), so that
// a rule means the same by verbs' specs and by these buffers.
#include "mlx5/match_buffer.hh"

#include <algorithm>
#include <span>

#include <netinet/in.h>

namespace kilim::mlx5 {
namespace {

namespace lyr = prm::match_lyr_2_4;
namespace param = prm::match_param;

// One set of headers, in value and in mask.
struct HeaderSet {
  std::span<std::byte> value, mask;

  template <typename T>
  void put(prm::CapField field, const flow::Masked<T>& m) const noexcept {
    if (m.mask == 0) return;
    prm::cap_set(value, field, m.value & m.mask);
    prm::cap_set(mask, field, m.mask);
  }
  void put_exactly(prm::CapField field, uint32_t v) const noexcept {
    prm::cap_set(value, field, v);
    prm::cap_set(mask, field, ~uint32_t{0});
  }
  // An address that ends `room` bytes behind `at`.
  template <std::size_t n>
  void put(std::size_t at, const flow::Masked<std::array<uint8_t, n>>& m,
           std::size_t room = n) const noexcept {
    at += room - n;
    for (std::size_t i = 0; i < n; i++) {
      value[at + i] = static_cast<std::byte>(m.value[i] & m.mask[i]);
      mask[at + i] = static_cast<std::byte>(m.mask[i]);
    }
  }
};

HeaderSet at(MatchBuffers& b, std::size_t from) noexcept {
  constexpr std::size_t bytes = 64;
  return {std::span(b.value.headers).subspan(from, bytes),
          std::span(b.mask.headers).subspan(from, bytes)};
}

// Layers of a flow::Match or of a flow::Inner; `second`: where misc has the second tag's bit.
template <typename Layers>
void put_layer2(const HeaderSet& to, const HeaderSet& misc, prm::CapField second,
                const Layers& m) noexcept {
  if (m.eth) {
    to.put(lyr::dmac, m.eth->dst);
    to.put(lyr::smac, m.eth->src);
    to.put(lyr::ethertype, m.eth->type);
  }
  if (!m.vlan) return;
  const bool service = m.vlan->kind == flow::Vlan::Kind::service;
  to.put_exactly(service ? lyr::svlan_tag : lyr::cvlan_tag, 1);
  to.put(lyr::vlan_tci, m.vlan->tci);
  if (m.vlan->more) misc.put_exactly(second, *m.vlan->more ? 1 : 0);
}

// Layers of a flow::Match or of a flow::Inner.
template <typename Layers>
void put_ip(const HeaderSet& to, const Layers& m) noexcept {
  constexpr std::size_t address_bytes = 16;
  if (m.ipv4) {
    to.put_exactly(lyr::ip_version, 4);
    to.put(lyr::src_ip, m.ipv4->src, address_bytes);
    to.put(lyr::dst_ip, m.ipv4->dst, address_bytes);
    to.put(lyr::ip_protocol, m.ipv4->protocol);
    to.put(lyr::ip_tos, m.ipv4->tos);
    to.put(lyr::ttl_hoplimit, m.ipv4->ttl);
    if (m.ipv4->fragment) to.put_exactly(lyr::frag, *m.ipv4->fragment ? 1 : 0);
  }
  if (!m.ipv6) return;
  to.put_exactly(lyr::ip_version, 6);
  to.put(lyr::src_ip, m.ipv6->src);
  to.put(lyr::dst_ip, m.ipv6->dst);
  to.put(lyr::ip_protocol, m.ipv6->protocol);
  to.put(lyr::ip_tos, m.ipv6->traffic_class);
  to.put(lyr::ttl_hoplimit, m.ipv6->hop_limit);
  if (m.ipv6->fragment) to.put_exactly(lyr::frag, *m.ipv6->fragment ? 1 : 0);
}

// Fragments have the protocol, and no ports: as mlx5_ib says it of verbs' specs (Linux
// hw/mlx5/fs.c, parse_flow_attr()).
template <typename Layers>
void put_ports(const HeaderSet& to, const Layers& m) noexcept {
  if (m.tcp) {
    to.put_exactly(lyr::ip_protocol, flow::protocol_tcp);
    to.put(lyr::tcp_sport, m.tcp->src);
    to.put(lyr::tcp_dport, m.tcp->dst);
    to.put(lyr::tcp_flags, m.tcp->flags);
  }
  if (!m.udp) return;
  to.put_exactly(lyr::ip_protocol, flow::protocol_udp);
  to.put(lyr::udp_sport, m.udp->src);
  to.put(lyr::udp_dport, m.udp->dst);
}

void put_tunnel(const HeaderSet& outer, const HeaderSet& misc, const flow::Tunnel& t) noexcept {
  if (t.kind == flow::Tunnel::Kind::vxlan) {
    misc.put(prm::match_further::vxlan_vni, t.id);
    return;
  }
  outer.put_exactly(lyr::ip_protocol, IPPROTO_GRE);
  misc.put(prm::match_further::gre_key, t.id);
  misc.put(prm::match_further::gre_protocol, t.protocol);
  misc.put(prm::match_further::gre_present, t.present);
}

// Identifier and sequence number are one field (DPDK 22.11 drivers/net/mlx5/mlx5_flow_dv.c,
// flow_dv_translate_item_icmp()).
void put_icmp(const HeaderSet& misc3, const flow::Icmp& icmp, bool six) noexcept {
  namespace f = prm::match_icmp;
  misc3.put(six ? f::icmpv6_type : f::icmp_type, icmp.type);
  misc3.put(six ? f::icmpv6_code : f::icmp_code, icmp.code);
  const auto both = [](uint16_t ident, uint16_t sequence) {
    return uint32_t{ident} << 16 | sequence;
  };
  misc3.put(six ? f::icmpv6_header_data : f::icmp_header_data,
            flow::Masked<uint32_t>{both(icmp.ident.value, icmp.sequence.value),
                                   both(icmp.ident.mask, icmp.sequence.mask)});
}

bool any(std::span<const std::byte> bytes) noexcept {
  return std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
}

// Layers that an inner frame may have too.
template <typename Layers>
bool layers_need_buffers(const Layers& m) noexcept {
  if (m.ipv4 && (m.ipv4->ttl.mask != 0 || m.ipv4->fragment)) return true;
  if (m.ipv6 && (m.ipv6->hop_limit.mask != 0 || m.ipv6->fragment)) return true;
  return m.tcp && m.tcp->flags.mask != 0;
}

// Verbs' specs say of a tag that it is there by its number alone (parse_flow_attr()).
bool vlan_needs_buffers(const flow::Vlan& v) noexcept {
  return v.tci.mask == 0 || v.kind != flow::Vlan::Kind::customer || v.more;
}

}  // namespace

bool needs_buffers(const flow::Match& m) noexcept {
  if (m.untagged || m.icmp || m.esp || layers_need_buffers(m)) return true;
  if (m.vlan && vlan_needs_buffers(*m.vlan)) return true;
  if (m.tunnel && (m.tunnel->protocol.mask != 0 || m.tunnel->present.mask != 0)) return true;
  return m.inner && (m.inner->eth || m.inner->vlan || layers_need_buffers(*m.inner));
}

MatchBuffers::MatchBuffers(const flow::Match& m) noexcept {
  namespace further = prm::match_further;
  const HeaderSet outer = at(*this, param::outer), misc = at(*this, param::misc),
                  inner = at(*this, param::inner), misc3 = at(*this, param::misc3);
  put_layer2(outer, misc, further::outer_second_cvlan_tag, m);
  // No tag of either kind (Linux drivers/net/ethernet/mellanox/mlx5/core/en_fs.c,
  // __mlx5e_add_vlan_rule(), MLX5E_VLAN_RULE_TYPE_UNTAGGED).
  if (m.untagged) outer.put_exactly(lyr::cvlan_tag, 0);
  put_ip(outer, m);
  put_ports(outer, m);
  if (m.ipv6) misc.put(prm::match_further::outer_ipv6_flow_label, m.ipv6->label);
  if (m.tunnel) put_tunnel(outer, misc, *m.tunnel);
  if (m.esp) misc.put(further::outer_esp_spi, m.esp->spi);
  if (m.icmp) put_icmp(misc3, *m.icmp, m.ipv6.has_value());
  if (m.inner) {
    put_layer2(inner, misc, further::inner_second_cvlan_tag, *m.inner);
    put_ip(inner, *m.inner);
    put_ports(inner, *m.inner);
    if (m.inner->ipv6) misc.put(prm::match_further::inner_ipv6_flow_label, m.inner->ipv6->label);
  }
  criteria = static_cast<uint8_t>(
      (any(outer.mask) ? param::outer_counts : 0) | (any(misc.mask) ? param::misc_counts : 0) |
      (any(inner.mask) ? param::inner_counts : 0) | (any(misc3.mask) ? param::misc3_counts : 0));
  if (any(misc3.mask)) value.size = mask.size = param::bytes_misc3;
}

}  // namespace kilim::mlx5
