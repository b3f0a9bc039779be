// SPDX-License-Identifier: BSD-3-Clause
#include "mlx5/flow_specs.hh"

#include <cstring>
#include <new>

#include <arpa/inet.h>

namespace kilim::mlx5 {
namespace {

template <std::size_t n, typename T>
void store(T& to, const std::array<uint8_t, n>& from) noexcept {
  static_assert(sizeof(T) == n);
  std::memcpy(&to, from.data(), n);
}

ibv_flow_spec_type placed(ibv_flow_spec_type type, uint32_t where) noexcept {
  return static_cast<ibv_flow_spec_type>(type | where);
}

}  // namespace

// Specs stand one behind the other, and not where their types would want it.
template <typename Spec>
void FlowSpecs::append(ibv_flow_spec_type type, Spec spec) noexcept {
  spec.type = type;
  spec.size = sizeof(Spec);
  std::memcpy(memory_ + used_, &spec, sizeof(Spec));
  used_ += sizeof(Spec);
  attr()->num_of_specs++;
}

void FlowSpecs::append_eth(const flow::Match& m) noexcept {
  ibv_flow_spec_eth s{};
  const flow::Eth eth = m.eth.value_or(flow::Eth{});
  store(s.val.dst_mac, eth.dst.value);
  store(s.mask.dst_mac, eth.dst.mask);
  store(s.val.src_mac, eth.src.value);
  store(s.mask.src_mac, eth.src.mask);
  s.val.ether_type = htons(eth.type.value);
  s.mask.ether_type = htons(eth.type.mask);
  if (m.vlan) {
    s.val.vlan_tag = htons(m.vlan->tci.value);
    s.mask.vlan_tag = htons(m.vlan->tci.mask);
  }
  append(IBV_FLOW_SPEC_ETH, s);
}

template <typename Layers>
void FlowSpecs::append_ip(const Layers& m, uint32_t where) noexcept {
  if (m.ipv4) {
    ibv_flow_spec_ipv4_ext s{};
    store(s.val.src_ip, m.ipv4->src.value);
    store(s.mask.src_ip, m.ipv4->src.mask);
    store(s.val.dst_ip, m.ipv4->dst.value);
    store(s.mask.dst_ip, m.ipv4->dst.mask);
    s.val.proto = m.ipv4->protocol.value;
    s.mask.proto = m.ipv4->protocol.mask;
    s.val.tos = m.ipv4->tos.value;
    s.mask.tos = m.ipv4->tos.mask;
    append(placed(IBV_FLOW_SPEC_IPV4_EXT, where), s);
  }
  if (!m.ipv6) return;
  ibv_flow_spec_ipv6 s{};
  store(s.val.src_ip, m.ipv6->src.value);
  store(s.mask.src_ip, m.ipv6->src.mask);
  store(s.val.dst_ip, m.ipv6->dst.value);
  store(s.mask.dst_ip, m.ipv6->dst.mask);
  s.val.next_hdr = m.ipv6->protocol.value;
  s.mask.next_hdr = m.ipv6->protocol.mask;
  s.val.traffic_class = m.ipv6->traffic_class.value;
  s.mask.traffic_class = m.ipv6->traffic_class.mask;
  s.val.flow_label = htonl(m.ipv6->label.value);
  s.mask.flow_label = htonl(m.ipv6->label.mask);
  append(placed(IBV_FLOW_SPEC_IPV6, where), s);
}

template <typename Layers>
void FlowSpecs::append_ports(const Layers& m, uint32_t where) noexcept {
  if (!m.tcp && !m.udp) return;
  const flow::Ports& ports = m.tcp ? *m.tcp : *m.udp;
  ibv_flow_spec_tcp_udp s{};
  s.val.src_port = htons(ports.src.value);
  s.mask.src_port = htons(ports.src.mask);
  s.val.dst_port = htons(ports.dst.value);
  s.mask.dst_port = htons(ports.dst.mask);
  append(placed(m.tcp ? IBV_FLOW_SPEC_TCP : IBV_FLOW_SPEC_UDP, where), s);
}

void FlowSpecs::append_tunnel(const flow::Tunnel& tunnel) noexcept {
  if (tunnel.kind == flow::Tunnel::Kind::vxlan) {
    ibv_flow_spec_tunnel s{};
    s.val.tunnel_id = htonl(tunnel.id.value);
    s.mask.tunnel_id = htonl(tunnel.id.mask);
    append(IBV_FLOW_SPEC_VXLAN_TUNNEL, s);
    return;
  }
  ibv_flow_spec_gre s{};
  s.val.key = htonl(tunnel.id.value);
  s.mask.key = htonl(tunnel.id.mask);
  append(IBV_FLOW_SPEC_GRE, s);
}

// An Ethernet spec stands in every rule: without one a rule of no layer would match nothing.
FlowSpecs::FlowSpecs(const device::FlowRequest& r, uint8_t port, ibv_counters* counters) noexcept {
  auto* a = new (memory_) ibv_flow_attr{};
  a->type = IBV_FLOW_ATTR_NORMAL;
  a->priority = r.priority;
  a->port = port;
  append_eth(r.match);
  append_ip(r.match, 0);
  append_ports(r.match, 0);
  if (r.match.tunnel) append_tunnel(*r.match.tunnel);
  if (r.match.inner) {
    append_ip(*r.match.inner, IBV_FLOW_SPEC_INNER);
    append_ports(*r.match.inner, IBV_FLOW_SPEC_INNER);
  }
  if (r.mark) append(IBV_FLOW_SPEC_ACTION_TAG, ibv_flow_spec_action_tag{.tag_id = *r.mark});
  if (r.drop) append(IBV_FLOW_SPEC_ACTION_DROP, ibv_flow_spec_action_drop{});
  if (counters != nullptr)
    append(IBV_FLOW_SPEC_ACTION_COUNT, ibv_flow_spec_counter_action{.counters = counters});
  a->size = static_cast<uint16_t>(used_);
}

}  // namespace kilim::mlx5
