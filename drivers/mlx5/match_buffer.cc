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

// The same set of headers in value and mask.
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

void put_layer2(const HeaderSet& to, const flow::Match& m) noexcept {
  if (m.eth) {
    to.put(lyr::dmac, m.eth->dst);
    to.put(lyr::smac, m.eth->src);
    to.put(lyr::ethertype, m.eth->type);
  }
  if (!m.vlan) return;
  to.put_exactly(lyr::cvlan_tag, 1);
  to.put(lyr::vlan_tci, m.vlan->tci);
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
  }
  if (!m.ipv6) return;
  to.put_exactly(lyr::ip_version, 6);
  to.put(lyr::src_ip, m.ipv6->src);
  to.put(lyr::dst_ip, m.ipv6->dst);
  to.put(lyr::ip_protocol, m.ipv6->protocol);
  to.put(lyr::ip_tos, m.ipv6->traffic_class);
}

// Fragments have no such layer.
template <typename Layers>
void put_ports(const HeaderSet& to, const Layers& m) noexcept {
  if (m.tcp || m.udp) to.put_exactly(lyr::frag, 0);
  if (m.tcp) {
    to.put_exactly(lyr::ip_protocol, flow::protocol_tcp);
    to.put(lyr::tcp_sport, m.tcp->src);
    to.put(lyr::tcp_dport, m.tcp->dst);
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
}

bool any(std::span<const std::byte> bytes) noexcept {
  return std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
}

}  // namespace

MatchBuffers::MatchBuffers(const flow::Match& m) noexcept {
  const HeaderSet outer = at(*this, param::outer), misc = at(*this, param::misc),
                  inner = at(*this, param::inner);
  put_layer2(outer, m);
  put_ip(outer, m);
  put_ports(outer, m);
  if (m.ipv6) misc.put(prm::match_further::outer_ipv6_flow_label, m.ipv6->label);
  if (m.tunnel) put_tunnel(outer, misc, *m.tunnel);
  if (m.inner) {
    put_ip(inner, *m.inner);
    put_ports(inner, *m.inner);
    if (m.inner->ipv6) misc.put(prm::match_further::inner_ipv6_flow_label, m.inner->ipv6->label);
  }
  criteria = static_cast<uint8_t>((any(outer.mask) ? param::outer_counts : 0) |
                                  (any(misc.mask) ? param::misc_counts : 0) |
                                  (any(inner.mask) ? param::inner_counts : 0));
}

}  // namespace kilim::mlx5
